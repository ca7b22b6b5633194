package idempotency.client;

/**
 * An attempt ended unknown and nobody may start another, until a person or the reconciliation has
 * found out what happened. Never go round it with another key.
 */
public final class NeedsResolutionException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  NeedsResolutionException(Builder from) {
    super(from);
  }
}
