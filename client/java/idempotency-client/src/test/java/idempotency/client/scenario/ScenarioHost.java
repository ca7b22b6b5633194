package idempotency.client.scenario;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** The scenario host, see client/scenarios/README.md. Thread-safe. */
final class ScenarioHost {
  static final String VARIABLE = "IDEMPOTENCY_SCENARIO_HOST";

  private static final Gson GSON =
      new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private final String address;
  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  ScenarioHost(String address) {
    this.address = address;
  }

  JsonElement get(String path) throws IOException, InterruptedException {
    return send(HttpRequest.newBuilder(URI.create(address + path)).GET());
  }

  JsonObject post(String path, JsonElement body) throws IOException, InterruptedException {
    return send(HttpRequest.newBuilder(URI.create(address + path))
            .POST(HttpRequest.BodyPublishers.ofString(GSON.toJson(body))))
        .getAsJsonObject();
  }

  private JsonElement send(HttpRequest.Builder request) throws IOException, InterruptedException {
    // Longer than any wait of the host.
    HttpResponse<String> response =
        http.send(
            request.timeout(Duration.ofSeconds(100)).build(), HttpResponse.BodyHandlers.ofString());
    if (response.statusCode() >= 300) {
      throw new IOException(
          "the scenario host answered " + response.statusCode() + ": " + response.body());
    }
    return JsonParser.parseString(response.body());
  }
}
