package idempotency.client;

/** What is known about an attempt that did not succeed. */
public enum FailureDisposition {
  /** Nothing happened, for certain. The key is free for the next call. */
  NOT_APPLIED,
  /** The operation failed for good; the failure is the answer, and is replayed like one. */
  FINAL,
  /** It may have happened. The default for everything that is not known to be one of the others. */
  UNKNOWN
}
