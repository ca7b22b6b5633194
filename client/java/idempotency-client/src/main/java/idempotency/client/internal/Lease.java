package idempotency.client.internal;

/**
 * What an accepted Begin or Renew gave.
 *
 * @param sentAt when that call was sent: the lease is counted from there
 * @param nanos how long it is
 */
record Lease(LeaseClock.Reading sentAt, long nanos) {
  // A lease that has nearly no time left is not renewed in a busy loop.
  private static final long SHORTEST_THIRD = 20_000_000;

  /** What is left; never negative. */
  long left(LeaseClock clock) {
    return Math.max(0, nanos - clock.since(sentAt));
  }

  long third() {
    return Math.max(nanos / 3, SHORTEST_THIRD);
  }
}
