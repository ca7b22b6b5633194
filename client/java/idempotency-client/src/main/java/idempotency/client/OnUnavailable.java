package idempotency.client;

/** What becomes of a call when the service cannot be reached. */
public enum OnUnavailable {
  /** The default: the work is not done, and the call ends with its error. */
  FAIL,
  /**
   * The work is done without the service, if it is certain that the service knows nothing of this
   * call: {@link RunResult.Unprotected}. Nothing is recorded and nobody else is kept out, so two
   * calls may both do the work. Refused together with {@link OnLeaseExpiry#HOLD}.
   */
  RUN_UNPROTECTED
}
