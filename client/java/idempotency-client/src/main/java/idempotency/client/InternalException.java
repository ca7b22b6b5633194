package idempotency.client;

/** The service failed, or gave an answer that this client does not understand. */
public final class InternalException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  InternalException(Builder from) {
    super(from);
  }
}
