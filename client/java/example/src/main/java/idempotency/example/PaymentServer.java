package idempotency.example;

import com.google.protobuf.ByteString;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import idempotency.client.Attempt;
import idempotency.client.Header;
import idempotency.client.HttpAnswer;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Outcome;
import idempotency.client.Request;
import idempotency.client.Runner;
import idempotency.client.WorkResult;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Optional;
import java.util.concurrent.TimeoutException;

/** {@code POST /payments} with an Idempotency-Key. */
final class PaymentServer implements AutoCloseable {
  private static final int AMOUNT = 50;

  private final Runner runner;
  private final Partner partner;
  private final HttpServer http;

  PaymentServer(Runner runner, Partner partner) throws IOException {
    this.runner = runner;
    this.partner = partner;
    http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    http.createContext("/payments", this::handle);
    http.start();
  }

  int port() {
    return http.getAddress().getPort();
  }

  @Override
  public void close() {
    http.stop(0);
  }

  private void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      HttpAnswer answer = pay(exchange.getRequestHeaders().getFirst("Idempotency-Key"), body);
      for (Header header : answer.headers()) {
        exchange.getResponseHeaders().add(header.name(), header.value().toStringUtf8());
      }
      ByteString content = answer.body();
      exchange.sendResponseHeaders(answer.status(), content.isEmpty() ? -1 : content.size());
      content.writeTo(exchange.getResponseBody());
    }
  }

  private HttpAnswer pay(String idempotencyKey, byte[] body) {
    try {
      return HttpAnswer.of(
          runner.runOnce(
              new Key("shop-1", idempotencyKey),
              Request.payload("POST /payments", body, "application/json"),
              OnLeaseExpiry.TAKE_OVER,
              this::transfer));
    } catch (IdempotencyException error) {
      return HttpAnswer.of(error);
    }
  }

  // Whatever this throws is recorded as unknown.
  private WorkResult transfer(Attempt attempt) throws TimeoutException {
    if (attempt.unknownAttempts() > 0) {
      Optional<String> earlier = partner.find(attempt.downstreamKey());
      if (earlier.isPresent()) return paid(earlier.get());
    }
    return paid(partner.transfer(attempt.downstreamKey(), AMOUNT));
  }

  private static WorkResult paid(String transfer) {
    String body = "{\"transfer\":\"" + transfer + "\"}";
    return WorkResult.completed(Outcome.status(201).json(body).responseId(transfer).build());
  }
}
