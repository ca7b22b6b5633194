package idempotency.client;

/** The merchant is over its rate; {@link #retryAfter} says how long to wait. */
public final class RateLimitedException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  RateLimitedException(Builder from) {
    super(from);
  }
}
