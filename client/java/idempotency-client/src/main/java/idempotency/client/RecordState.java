package idempotency.client;

/** Where a record stands. */
public enum RecordState {
  /** The last attempt's lease is not over. */
  IN_PROGRESS,
  /** Final: an outcome is recorded and is replayed. */
  COMPLETED,
  /** Final: a failure is recorded and is replayed. */
  FAILED,
  /** The last attempt said that nothing happened; the next call does the work. */
  RELEASED,
  /**
   * Money may have moved: the lease is over with nothing recorded, or the attempt ended unknown.
   */
  ABANDONED
}
