package idempotency.client;

/** The caller left: its thread was interrupted, its future or its gRPC context cancelled. */
public final class CancelledException extends IdempotencyException {
  private static final long serialVersionUID = 1L;

  CancelledException(Builder from) {
    super(from);
  }
}
