package idempotency.client;

/** Why the work is asked to stop. */
public enum StopReason {
  /** It is not. */
  NONE,
  /** The lease is lost, or could not be renewed in time: somebody else may start the work. */
  LEASE_LOST,
  /** {@link RunOptions.Builder#maxDuration} is over. */
  MAX_DURATION,
  /** The caller left: its thread was interrupted, its future or its gRPC context cancelled. */
  CANCELLED,
  /** The caller's deadline passed. */
  DEADLINE,
  /** {@link IdempotencyClient#close} was called. What the work comes to is still recorded. */
  CLOSED
}
