package idempotency.client;

/**
 * What happens when a process dies, or hangs, between the start of the work and its record. There
 * is no default: it depends on the partner.
 */
public enum OnLeaseExpiry {
  /**
   * The next call does the work again and is told that an attempt ended unknown ({@link
   * Attempt#unknownAttempts}). For partners that are idempotent by the downstream key, or can be
   * asked.
   */
  TAKE_OVER,
  /**
   * Nobody does the work again ({@link NeedsResolutionException}) until a person or the
   * reconciliation has found out what happened. For partners that would pay twice.
   */
  HOLD
}
