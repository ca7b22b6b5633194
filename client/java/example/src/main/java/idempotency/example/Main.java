package idempotency.example;

import idempotency.client.ChannelOptions;
import idempotency.client.IdempotencyClient;
import idempotency.client.Keys;
import io.grpc.InsecureChannelCredentials;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * A tiny payment service with a partner that takes the money and then does not answer.
 *
 * <pre>
 *   ./dev run                    the service, in another terminal
 *   java … idempotency.example.Main 127.0.0.1:50051
 * </pre>
 *
 * <p>Pays one order three times, as a payer who lost the answer would. The partner's first answer
 * is lost after it took the money. What happens:
 *
 * <ol>
 *   <li>The partner's time-out says nothing about the money, so the attempt ends unknown: 502.
 *   <li>The next attempt is told that one ended unknown, asks the partner by the downstream key,
 *       learns that the money moved, and records that: 201, and no second transfer.
 *   <li>The last call gets the recorded answer, byte for byte, without touching the partner.
 * </ol>
 */
public final class Main {
  private Main() {}

  /** Takes the address of a service; its exit status is 0 if the money moved exactly once. */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 1) {
      System.err.println("Usage: idempotency.example.Main HOST:PORT");
      System.exit(2);
    }
    // Plain text: the service of ./dev run.
    ChannelOptions channel = ChannelOptions.of(arguments[0], InsecureChannelCredentials.create());
    Partner partner = new Partner();
    boolean isRight;
    try (IdempotencyClient client = IdempotencyClient.connect(channel);
        PaymentServer server = new PaymentServer(client, partner)) {
      String key = Keys.randomRequestId();
      HttpResponse<String> first = post(server, key);
      HttpResponse<String> second = post(server, key);
      HttpResponse<String> third = post(server, key);
      isRight =
          first.statusCode() == 502
              && second.statusCode() == 201
              && third.statusCode() == 201
              && third.body().equals(second.body())
              && third.headers().firstValue("Idempotent-Replayed").isPresent()
              && partner.moved() == 50;
    }
    System.out.println("money moved: " + partner.moved());
    if (!isRight) System.exit(1);
  }

  private static HttpResponse<String> post(PaymentServer server, String key)
      throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + "/payments"))
            .header("Idempotency-Key", key)
            .POST(HttpRequest.BodyPublishers.ofString("{\"amount\":50}"))
            .build();
    HttpResponse<String> response =
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    boolean isReplayed = response.headers().firstValue("Idempotent-Replayed").isPresent();
    System.out.println(
        response.statusCode() + (isReplayed ? ", replayed" : "") + ": " + response.body());
    return response;
  }
}
