package idempotency.client;

/** Nothing is known about the key. */
public final class RecordNotFoundException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  RecordNotFoundException(Builder from) {
    super(from);
  }
}
