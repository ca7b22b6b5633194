package idempotency.client;

/** The service did not answer in time, or the caller's deadline passed. */
public final class DeadlineExceededException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  DeadlineExceededException(Builder from) {
    super(from);
  }
}
