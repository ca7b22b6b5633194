package idempotency.client;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What the work came to: what {@link Work} returns. Exactly one of the two is there.
 *
 * @param outcome the answer, if the work was done
 * @param failure how it failed, if it was not, or is not known to be
 */
public record WorkResult(@Nullable Outcome outcome, @Nullable Failure failure) {
  /**
   * Prefer the methods below.
   *
   * @throws IllegalArgumentException if both are given, or neither
   */
  public WorkResult {
    if ((outcome == null) == (failure == null)) {
      throw new IllegalArgumentException("exactly one of outcome and failure must be given");
    }
  }

  /** Done. {@code outcome} is the answer from now on. */
  public static WorkResult completed(Outcome outcome) {
    return new WorkResult(Objects.requireNonNull(outcome, "outcome"), null);
  }

  /**
   * Only with proof that nothing happened and nothing will: the request was never sent, or the
   * partner refused it. A time-out, a reset connection or a 5xx is no proof.
   */
  public static WorkResult notApplied(String code, String message) {
    return failed(new Failure(FailureDisposition.NOT_APPLIED, code, message, null));
  }

  /** Failed for good: card declined, account closed. Every later call gets this answer. */
  public static WorkResult finalFailure(String code, String message) {
    return failed(new Failure(FailureDisposition.FINAL, code, message, null));
  }

  /** Failed for good, with the answer that goes with it. */
  public static WorkResult finalFailure(String code, String message, Outcome outcome) {
    return failed(new Failure(FailureDisposition.FINAL, code, message, outcome));
  }

  /** Not known. Always allowed, never wrong. */
  public static WorkResult unknown(String code, String message) {
    return failed(new Failure(FailureDisposition.UNKNOWN, code, message, null));
  }

  /** That failure. */
  public static WorkResult failed(Failure failure) {
    return new WorkResult(null, Objects.requireNonNull(failure, "failure"));
  }
}
