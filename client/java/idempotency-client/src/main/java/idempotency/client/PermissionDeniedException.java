package idempotency.client;

/** Not this caller's merchant or right. */
public final class PermissionDeniedException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  PermissionDeniedException(Builder from) {
    super(from);
  }
}
