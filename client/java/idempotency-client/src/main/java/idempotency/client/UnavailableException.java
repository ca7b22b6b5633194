package idempotency.client;

/** The service, or its database, cannot be reached, or the client is closed. */
public final class UnavailableException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  UnavailableException(Builder from) {
    super(from);
  }
}
