package idempotency.client.scenario;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.ByteString;
import idempotency.client.Failure;
import idempotency.client.FailureDisposition;
import idempotency.client.Header;
import idempotency.client.IdempotencyException;
import idempotency.client.IdempotencyRecord;
import idempotency.client.Key;
import idempotency.client.Outcome;
import idempotency.client.Request;
import idempotency.client.RunResult;
import idempotency.client.WorkResult;
import java.time.Duration;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Locale;

/** The API's values as client/scenarios/README.md and client/vectors write them. */
public final class Json {
  private Json() {}

  public static boolean has(JsonObject object, String name) {
    JsonElement element = object.get(name);
    return element != null && !(element instanceof JsonNull);
  }

  public static String text(JsonObject object, String name) {
    return has(object, name) ? object.get(name).getAsString() : "";
  }

  public static ByteString bytes(JsonElement element) {
    if (element.isJsonObject()) {
      String base64 = element.getAsJsonObject().get("base64").getAsString();
      return ByteString.copyFrom(Base64.getDecoder().decode(base64));
    }
    return ByteString.copyFromUtf8(element.getAsString());
  }

  public static JsonElement bytes(ByteString bytes) {
    if (bytes.isValidUtf8()) return new JsonPrimitive(bytes.toStringUtf8());
    JsonObject object = new JsonObject();
    object.addProperty("base64", Base64.getEncoder().encodeToString(bytes.toByteArray()));
    return object;
  }

  static Key key(JsonObject key) {
    return new Key(text(key, "merchant_id"), text(key, "idempotency_key"));
  }

  static Request request(JsonObject request) {
    String operation = text(request, "operation");
    if (has(request, "fingerprint_base64")) {
      byte[] sha256 = Base64.getDecoder().decode(text(request, "fingerprint_base64"));
      int scheme =
          has(request, "fingerprint_scheme") ? request.get("fingerprint_scheme").getAsInt() : 0;
      return new Request(operation, new Request.Fingerprint(ByteString.copyFrom(sha256), scheme));
    }
    JsonObject payload = request.getAsJsonObject("payload");
    return Request.payload(operation, bytes(payload.get("data")), text(payload, "content_type"));
  }

  public static Outcome outcome(JsonObject outcome) {
    Outcome.Builder builder =
        Outcome.status(has(outcome, "status_code") ? outcome.get("status_code").getAsInt() : 0)
            .contentType(text(outcome, "content_type"))
            .responseId(text(outcome, "response_id"));
    if (has(outcome, "headers")) {
      for (JsonElement header : outcome.getAsJsonArray("headers")) {
        JsonArray pair = header.getAsJsonArray();
        builder.header(new Header(pair.get(0).getAsString(), bytes(pair.get(1))));
      }
    }
    if (has(outcome, "body")) builder.body(bytes(outcome.get("body")));
    Outcome built = builder.build();
    if (!has(outcome, "body_omitted")) return built;
    return new Outcome(
        built.statusCode(),
        built.headers(),
        built.contentType(),
        null,
        built.responseId(),
        true,
        outcome.get("body_size").getAsLong(),
        ByteString.copyFrom(HexFormat.of().parseHex(text(outcome, "body_sha256_hex"))));
  }

  public static JsonObject outcome(Outcome outcome) {
    JsonObject object = new JsonObject();
    object.addProperty("status_code", outcome.statusCode());
    JsonArray headers = new JsonArray();
    for (Header header : outcome.headers()) {
      JsonArray pair = new JsonArray();
      pair.add(header.name());
      pair.add(bytes(header.value()));
      headers.add(pair);
    }
    object.add("headers", headers);
    object.addProperty("content_type", outcome.contentType());
    if (outcome.body() != null) object.add("body", bytes(outcome.body()));
    object.addProperty("response_id", outcome.responseId());
    object.addProperty("body_omitted", outcome.bodyOmitted());
    if (outcome.bodySize() != null) object.addProperty("body_size", outcome.bodySize());
    if (!outcome.bodySha256().isEmpty()) {
      object.addProperty(
          "body_sha256_hex", HexFormat.of().formatHex(outcome.bodySha256().toByteArray()));
    }
    return object;
  }

  public static FailureDisposition disposition(String name) {
    return FailureDisposition.valueOf(name.toUpperCase(Locale.ROOT));
  }

  public static Failure failure(JsonObject failure) {
    String name = text(failure, has(failure, "disposition") ? "disposition" : "kind");
    return new Failure(
        disposition(name),
        text(failure, "code"),
        text(failure, "message"),
        has(failure, "outcome") ? outcome(failure.getAsJsonObject("outcome")) : null);
  }

  static JsonObject failure(Failure failure) {
    JsonObject object = new JsonObject();
    object.addProperty("disposition", failure.disposition().name().toLowerCase(Locale.ROOT));
    object.addProperty("code", failure.code());
    object.addProperty("message", failure.message());
    if (failure.outcome() != null) object.add("outcome", outcome(failure.outcome()));
    return object;
  }

  public static WorkResult work(JsonObject work) {
    if (text(work, "kind").equals("completed")) {
      return WorkResult.completed(outcome(work.getAsJsonObject("outcome")));
    }
    return WorkResult.failed(failure(work));
  }

  static JsonObject work(WorkResult work) {
    JsonObject object = new JsonObject();
    if (work.outcome() != null) {
      object.addProperty("kind", "completed");
      object.add("outcome", outcome(work.outcome()));
      return object;
    }
    object = failure(work.failure());
    object.add("kind", object.remove("disposition"));
    return object;
  }

  static JsonObject result(RunResult result) {
    JsonObject object = new JsonObject();
    object.addProperty("result", result.getClass().getSimpleName());
    if (result instanceof RunResult.Completed completed) {
      object.add("outcome", outcome(completed.outcome()));
      object.addProperty("recorded_without_body", completed.recordedWithoutBody());
      object.addProperty("record_id", completed.recordId());
      object.addProperty("attempt_number", completed.attemptNumber());
      object.addProperty("finish_time", completed.finishTime().toString());
    } else if (result instanceof RunResult.Replayed replayed) {
      if (replayed.outcome() != null) object.add("outcome", outcome(replayed.outcome()));
      if (replayed.failure() != null) object.add("failure", failure(replayed.failure()));
      object.addProperty("record_id", replayed.recordId());
      object.addProperty("attempt_number", replayed.attemptNumber());
      object.addProperty("start_time", replayed.startTime().toString());
      object.addProperty("finish_time", replayed.finishTime().toString());
    } else if (result instanceof RunResult.InProgress inProgress) {
      object.addProperty("retry_after_ms", inProgress.retryAfter().toMillis());
      object.addProperty("record_id", inProgress.recordId());
      object.addProperty("attempt_number", inProgress.attemptNumber());
      object.addProperty("start_time", inProgress.startTime().toString());
    } else if (result instanceof RunResult.Failed failed) {
      object.add("failure", failure(failed.failure()));
      object.addProperty("threw", failed.thrown() != null);
      object.addProperty("recorded_without_body", failed.recordedWithoutBody());
      object.addProperty("record_id", failed.recordId());
      object.addProperty("attempt_number", failed.attemptNumber());
      object.addProperty("finish_time", failed.finishTime().toString());
    } else if (result instanceof RunResult.Unprotected unprotected) {
      object.add("work", work(unprotected.work()));
      object.addProperty("threw", unprotected.thrown() != null);
    }
    return object;
  }

  static JsonObject error(IdempotencyException error) {
    JsonObject object = new JsonObject();
    object.addProperty("result", "Error");
    JsonObject inner = new JsonObject();
    inner.addProperty("kind", error.kind().title());
    inner.addProperty("reason", error.reason());
    JsonArray violations = new JsonArray();
    error.violations().forEach(violation -> violations.add(violation.field()));
    inner.add("violations", violations);
    JsonObject metadata = new JsonObject();
    error.metadata().forEach(metadata::addProperty);
    inner.add("metadata", metadata);
    inner.addProperty("still_recording", error.stillRecording());
    object.add("error", inner);
    if (error.work() != null) object.add("work", work(error.work()));
    Duration retryAfter = error.retryAfter();
    if (retryAfter != null) object.addProperty("retry_after_ms", retryAfter.toMillis());
    object.addProperty("threw", error.thrown() != null);
    return object;
  }

  static JsonObject record(IdempotencyRecord record) {
    JsonObject object = new JsonObject();
    object.addProperty("state", record.state().name());
    object.addProperty("operation", record.operation());
    object.addProperty("record_id", record.recordId());
    object.addProperty("attempt_number", record.attemptNumber());
    object.addProperty("unknown_attempts", record.unknownAttempts());
    object.addProperty("on_lease_expiry", record.onLeaseExpiry().name());
    JsonObject labels = new JsonObject();
    record.labels().forEach(labels::addProperty);
    object.add("labels", labels);
    if (record.outcome() != null) object.add("outcome", outcome(record.outcome()));
    if (record.failure() != null) object.add("failure", failure(record.failure()));
    return object;
  }
}
