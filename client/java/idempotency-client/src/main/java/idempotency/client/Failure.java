package idempotency.client;

import idempotency.client.internal.Text;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * How an attempt failed, and what is known about its effects.
 *
 * @param disposition what is known
 * @param code the caller's own code; cut to 64 bytes of UTF-8, because a failure must be recorded
 *     however long its words are
 * @param message words for people; cut to 1,024 bytes of UTF-8. No secrets: support staff read them
 * @param outcome the answer that goes with it; null if there is none
 */
public record Failure(
    FailureDisposition disposition, String code, String message, @Nullable Outcome outcome) {
  private static final int MAX_CODE_BYTES = 64;
  private static final int MAX_MESSAGE_BYTES = 1024;

  /** Only the outcome may be null. */
  public Failure {
    Objects.requireNonNull(disposition, "disposition");
    Objects.requireNonNull(code, "code");
    Objects.requireNonNull(message, "message");
    // Here, so that the first answer is what every replay will be.
    code = Text.cut(code, MAX_CODE_BYTES);
    message = Text.cut(message, MAX_MESSAGE_BYTES);
  }
}
