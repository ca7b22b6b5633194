package idempotency.client;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * How an attempt failed, and what is known about its effects.
 *
 * @param disposition what is known
 * @param code the caller's own code; the client cuts it to 64 bytes of UTF-8, because a failure
 *     must be recorded however long its words are
 * @param message words for people; cut to 1,024 bytes of UTF-8. No secrets: support staff read them
 * @param outcome the answer that goes with it; null if there is none
 */
public record Failure(
    FailureDisposition disposition, String code, String message, @Nullable Outcome outcome) {
  /** Only the outcome may be null. */
  public Failure {
    Objects.requireNonNull(disposition, "disposition");
    Objects.requireNonNull(code, "code");
    Objects.requireNonNull(message, "message");
  }
}
