package idempotency.client;

/**
 * The work has ended, and what it came to ({@link #work}) is not recorded, or not yet: see {@link
 * #stillRecording}.
 */
public final class OutcomeNotRecordedException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  OutcomeNotRecordedException(Builder from) {
    super(from);
  }
}
