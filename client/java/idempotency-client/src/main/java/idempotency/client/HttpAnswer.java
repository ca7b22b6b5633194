package idempotency.client;

import com.google.protobuf.ByteString;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What a service that speaks HTTP answers. Nothing internal goes out: an error's message is a
 * constant.
 *
 * @param status 200 to 599
 * @param headers in this order; they may repeat
 * @param body may be empty
 */
public record HttpAnswer(int status, List<Header> headers, ByteString body) {
  /** Copies the list. */
  public HttpAnswer {
    headers = List.copyOf(headers);
    Objects.requireNonNull(body, "body");
  }

  /** The answer that goes with a result. */
  public static HttpAnswer of(RunResult result) {
    if (result instanceof RunResult.Completed completed) {
      return ofOutcome(completed.outcome(), false);
    }
    if (result instanceof RunResult.Replayed replayed) {
      return replayed.outcome() != null
          ? ofOutcome(replayed.outcome(), true)
          : ofFailure(Objects.requireNonNull(replayed.failure()), true);
    }
    if (result instanceof RunResult.InProgress inProgress) {
      return ofCode(409, "IN_PROGRESS", false, inProgress.retryAfter());
    }
    if (result instanceof RunResult.Failed failed) return ofFailure(failed.failure(), false);
    WorkResult work = ((RunResult.Unprotected) result).work();
    return work.outcome() != null
        ? ofOutcome(work.outcome(), false)
        : ofFailure(Objects.requireNonNull(work.failure()), false);
  }

  /** The answer that goes with an error. */
  public static HttpAnswer of(IdempotencyException error) {
    String code = error.kind().name();
    if (error.work() != null && !error.stillRecording()) return ofCode(500, code, false, null);
    return switch (error.kind()) {
      case INVALID_FIELD -> ofCode(400, code, false, null);
      case REQUEST_TOO_LARGE -> ofCode(413, code, false, null);
      case KEY_REUSED -> ofCode(422, code, false, null);
      case LEASE_LOST, OUTCOME_CONFLICT, NEEDS_RESOLUTION -> ofCode(409, code, false, null);
      case RECORD_NOT_FOUND -> ofCode(404, code, false, null);
      case RATE_LIMITED -> ofCode(429, code, false, orZero(error.retryAfter()));
      case UNAVAILABLE -> ofCode(503, code, false, orZero(error.retryAfter()));
      case DEADLINE_EXCEEDED -> ofCode(504, code, false, null);
      case CANCELLED -> ofCode(499, code, false, null);
      case OUTCOME_NOT_RECORDED -> ofCode(error.stillRecording() ? 504 : 500, code, false, null);
      case UNAUTHENTICATED, PERMISSION_DENIED, INTERNAL -> ofCode(500, code, false, null);
    };
  }

  private static Duration orZero(@Nullable Duration span) {
    return span == null ? Duration.ZERO : span;
  }

  private static HttpAnswer ofOutcome(Outcome outcome, boolean isReplayed) {
    if (outcome.statusCode() < 200 || outcome.statusCode() > 599) {
      return ofCode(500, "BAD_STATUS_CODE", isReplayed, null);
    }
    List<Header> headers = new ArrayList<>(outcome.headers());
    boolean hasType = headers.stream().anyMatch(h -> h.name().equalsIgnoreCase("Content-Type"));
    if (!hasType && !outcome.contentType().isEmpty()) {
      headers.add(Header.of("Content-Type", outcome.contentType()));
    }
    if (isReplayed) headers.add(Header.of("Idempotent-Replayed", "true"));
    if (outcome.bodyOmitted()) headers.add(Header.of("Idempotent-Body-Omitted", "true"));
    ByteString body = outcome.bodyOmitted() ? null : outcome.body();
    return new HttpAnswer(outcome.statusCode(), headers, body == null ? ByteString.EMPTY : body);
  }

  private static HttpAnswer ofFailure(Failure failure, boolean isReplayed) {
    return switch (failure.disposition()) {
      case NOT_APPLIED -> ofCode(503, "NOT_APPLIED", isReplayed, Duration.ZERO);
      case UNKNOWN -> ofCode(502, "OUTCOME_UNKNOWN", isReplayed, null);
      case FINAL ->
          failure.outcome() != null
              ? ofOutcome(failure.outcome(), isReplayed)
              : ofWords(422, failure.code(), failure.message(), isReplayed, null);
    };
  }

  private static HttpAnswer ofCode(
      int status, String code, boolean isReplayed, @Nullable Duration retryAfter) {
    return ofWords(status, code, messageOf(code), isReplayed, retryAfter);
  }

  private static HttpAnswer ofWords(
      int status, String code, String message, boolean isReplayed, @Nullable Duration retryAfter) {
    List<Header> headers = new ArrayList<>();
    headers.add(Header.of("Content-Type", "application/json"));
    if (isReplayed) headers.add(Header.of("Idempotent-Replayed", "true"));
    if (retryAfter != null) headers.add(Header.of("Retry-After", wholeSeconds(retryAfter)));
    String body =
        "{\"status\":" + status + ",\"code\":" + quoted(code) + ",\"message\":" + quoted(message);
    return new HttpAnswer(status, headers, ByteString.copyFromUtf8(body + "}"));
  }

  private static String wholeSeconds(Duration span) {
    long roundedUp = span.getNano() > 0 ? span.getSeconds() + 1 : span.getSeconds();
    return Long.toString(Math.max(1, roundedUp));
  }

  // As RFC 8785 writes a string.
  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> json.append("\\\"");
        case '\\' -> json.append("\\\\");
        case '\b' -> json.append("\\b");
        case '\t' -> json.append("\\t");
        case '\n' -> json.append("\\n");
        case '\f' -> json.append("\\f");
        case '\r' -> json.append("\\r");
        default -> json.append(c < 0x20 ? String.format("\\u%04x", (int) c) : String.valueOf(c));
      }
    }
    return json.append('"').toString();
  }

  private static String messageOf(String code) {
    return switch (code) {
      case "BAD_STATUS_CODE" -> "The recorded status code is none that HTTP can carry.";
      case "NOT_APPLIED", "UNAVAILABLE" -> "Nothing was done. Try again with the same key.";
      case "OUTCOME_UNKNOWN" -> "Whether this was done is not known. Try again with the same key.";
      case "IN_PROGRESS" -> "This is being done. Try again with the same key.";
      case "INVALID_FIELD" -> "The request is invalid.";
      case "REQUEST_TOO_LARGE" -> "The request is too large.";
      case "KEY_REUSED" -> "The key was used for another request.";
      case "LEASE_LOST" -> "This came too late. Try again with the same key.";
      case "OUTCOME_CONFLICT" -> "Another outcome is recorded.";
      case "NEEDS_RESOLUTION" ->
          "Whether this was done is not known, and has to be found out first.";
      case "RECORD_NOT_FOUND" -> "There is no record of this key.";
      case "RATE_LIMITED" -> "Too many requests. Try again with the same key.";
      case "DEADLINE_EXCEEDED" -> "There was no answer in time. Try again with the same key.";
      case "CANCELLED" -> "The caller has left.";
      case "OUTCOME_NOT_RECORDED" ->
          "This ended, and its outcome is not recorded. Try again with the same key.";
      case "UNAUTHENTICATED", "PERMISSION_DENIED" -> "The service is not set up right.";
      default -> "The service failed. Try again with the same key.";
    };
  }
}
