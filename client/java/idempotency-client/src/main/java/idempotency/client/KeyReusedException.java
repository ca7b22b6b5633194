package idempotency.client;

/**
 * The key is in use for another request; {@link #metadata} tells of it. A new request needs a new
 * key.
 */
public final class KeyReusedException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  KeyReusedException(Builder from) {
    super(from);
  }
}
