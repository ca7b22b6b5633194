package idempotency.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotency.client.scenario.Json;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** client/vectors: what the helpers of all clients make. */
final class VectorTest {
  private static Stream<JsonObject> vectors(String file, String list) throws IOException {
    String text = Files.readString(Path.of("../../vectors", file));
    JsonArray cases = JsonParser.parseString(text).getAsJsonObject().getAsJsonArray(list);
    assertFalse(cases.isEmpty(), file);
    return StreamSupport.stream(cases.spliterator(), false).map(JsonElement::getAsJsonObject);
  }

  static Stream<JsonObject> businessKeys() throws IOException {
    return vectors("business_key.json", "cases");
  }

  static Stream<JsonObject> refusedBusinessKeys() throws IOException {
    return vectors("business_key.json", "refused");
  }

  static Stream<JsonObject> downstreamKeys() throws IOException {
    return vectors("downstream_key.json", "cases");
  }

  static Stream<JsonObject> refusedDownstreamKeys() throws IOException {
    return vectors("downstream_key.json", "refused");
  }

  static Stream<JsonObject> httpAnswers() throws IOException {
    return vectors("http_answer.json", "cases");
  }

  private static String[] parts(JsonObject vector) {
    return StreamSupport.stream(vector.getAsJsonArray("parts").spliterator(), false)
        .map(JsonElement::getAsString)
        .toArray(String[]::new);
  }

  private static void assertRefused(
      JsonObject vector, org.junit.jupiter.api.function.Executable made) {
    InvalidFieldException refused = assertThrows(InvalidFieldException.class, made);
    assertEquals(
        List.of(Json.text(vector, "field")),
        refused.violations().stream().map(FieldViolation::field).toList());
  }

  @ParameterizedTest
  @MethodSource("businessKeys")
  void makesBusinessKey(JsonObject vector) {
    assertEquals(
        Json.text(vector, "key"), Keys.businessKey(Json.text(vector, "kind"), parts(vector)));
  }

  @ParameterizedTest
  @MethodSource("refusedBusinessKeys")
  void refusesBusinessKey(JsonObject vector) {
    assertRefused(vector, () -> Keys.businessKey(Json.text(vector, "kind"), parts(vector)));
  }

  @ParameterizedTest
  @MethodSource("downstreamKeys")
  void derivesDownstreamKey(JsonObject vector) {
    assertEquals(Json.text(vector, "key"), derived(vector));
  }

  @ParameterizedTest
  @MethodSource("refusedDownstreamKeys")
  void refusesDownstreamKey(JsonObject vector) {
    assertRefused(vector, () -> derived(vector));
  }

  private static String derived(JsonObject vector) {
    return DownstreamKeys.derive(
        Json.text(vector, "downstream_key"),
        Json.text(vector, "partner"),
        KeyShape.of(Json.text(vector, "shape")));
  }

  @ParameterizedTest
  @MethodSource("httpAnswers")
  void answersHttp(JsonObject vector) {
    HttpAnswer answer = answer(vector.getAsJsonObject("result"));
    JsonObject expected = vector.getAsJsonObject("answer");
    assertEquals(expected.get("status").getAsInt(), answer.status());
    assertEquals(
        headers(expected.getAsJsonArray("headers")),
        answer.headers().stream().map(h -> List.of(h.name(), h.value().toStringUtf8())).toList());
    assertEquals(Json.text(expected, "body"), answer.body().toStringUtf8());
  }

  private static List<List<String>> headers(JsonArray headers) {
    return StreamSupport.stream(headers.spliterator(), false)
        .map(JsonElement::getAsJsonArray)
        .map(pair -> Arrays.asList(pair.get(0).getAsString(), pair.get(1).getAsString()))
        .toList();
  }

  private static HttpAnswer answer(JsonObject result) {
    Outcome outcome =
        Json.has(result, "outcome") ? Json.outcome(result.getAsJsonObject("outcome")) : null;
    Failure failure =
        Json.has(result, "failure") ? Json.failure(result.getAsJsonObject("failure")) : null;
    WorkResult work = Json.has(result, "work") ? Json.work(result.getAsJsonObject("work")) : null;
    Instant now = Instant.EPOCH;
    boolean withoutBody = Json.has(result, "recorded_without_body");
    return switch (Json.text(result, "kind")) {
      case "Completed" -> HttpAnswer.of(new RunResult.Completed(outcome, withoutBody, "r", 1, now));
      case "Replayed" -> HttpAnswer.of(new RunResult.Replayed(outcome, failure, "r", 1, now, now));
      case "InProgress" -> {
        Duration retryAfter = Duration.ofMillis(result.get("retry_after_ms").getAsLong());
        yield HttpAnswer.of(new RunResult.InProgress(retryAfter, Duration.ZERO, "r", 1, now));
      }
      case "Failed" -> HttpAnswer.of(new RunResult.Failed(failure, null, withoutBody, "r", 1, now));
      case "Unprotected" ->
          HttpAnswer.of(
              new RunResult.Unprotected(
                  work, null, IdempotencyException.builder(ErrorKind.UNAVAILABLE).build()));
      default -> HttpAnswer.of(error(result.getAsJsonObject("error")));
    };
  }

  private static IdempotencyException error(JsonObject error) {
    ErrorKind kind =
        Arrays.stream(ErrorKind.values())
            .filter(value -> value.title().equals(Json.text(error, "kind")))
            .findFirst()
            .orElseThrow();
    IdempotencyException.Builder builder =
        IdempotencyException.builder(kind)
            .message(Json.text(error, "message"))
            .stillRecording(Json.has(error, "still_recording"));
    if (Json.has(error, "retry_after_ms")) {
      builder.retryAfter(Duration.ofMillis(error.get("retry_after_ms").getAsLong()));
    }
    if (Json.has(error, "work")) builder.work(Json.work(error.getAsJsonObject("work")));
    return builder.build();
  }
}
