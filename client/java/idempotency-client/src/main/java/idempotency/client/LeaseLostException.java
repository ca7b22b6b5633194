package idempotency.client;

/** The attempt is over, and a newer one may have the work. */
public final class LeaseLostException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  LeaseLostException(Builder from) {
    super(from);
  }
}
