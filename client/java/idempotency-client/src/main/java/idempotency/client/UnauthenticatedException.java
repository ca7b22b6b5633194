package idempotency.client;

/** No credentials, or bad ones. */
public final class UnauthenticatedException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  UnauthenticatedException(Builder from) {
    super(from);
  }
}
