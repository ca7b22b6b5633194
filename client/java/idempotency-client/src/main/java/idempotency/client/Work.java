package idempotency.client;

/**
 * The work, as {@link Runner#runOnce} runs it: at most once for each call.
 *
 * <p>Look at {@link Attempt#stop} between steps, ask {@link Attempt#leaseRemaining} right before
 * the step that cannot be undone, and send {@link Attempt#downstreamKey} to the partner.
 */
@FunctionalInterface
public interface Work {
  /**
   * Does the work.
   *
   * @param attempt the right to do it
   * @return what it came to; null counts as not known
   * @throws Exception whatever is thrown counts as not known, unless {@link
   *     RunOptions.Builder#classify} knows better. Nothing of its text is sent or recorded
   */
  WorkResult run(Attempt attempt) throws Exception;
}
