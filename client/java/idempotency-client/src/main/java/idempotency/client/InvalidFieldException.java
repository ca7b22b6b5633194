package idempotency.client;

/**
 * A field is wrong; {@link #violations} names it. A mistake in the program: do not repeat it
 * unchanged. With {@link #work}: the service refused what the work returned, so it is not recorded.
 */
public final class InvalidFieldException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  InvalidFieldException(Builder from) {
    super(from);
  }
}
