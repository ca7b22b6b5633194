package idempotency.client;

import java.time.Duration;
import java.time.Instant;
import org.jspecify.annotations.Nullable;

/** What a call of {@link Runner#runOnce} came to, if not to an {@link IdempotencyException}. */
public sealed interface RunResult {
  /**
   * The operation's answer, whether this call did the work or it was replayed: for those to whom
   * that makes no difference. Null for everything else, failures included.
   */
  default @Nullable Outcome outcome() {
    return null;
  }

  /**
   * This call did the work, and its outcome is recorded.
   *
   * @param outcome what the work returned
   * @param recordedWithoutBody the outcome's body was too large for the service; its size and
   *     digest are recorded
   * @param recordId the record's UUID
   * @param attemptNumber this attempt's, from 1
   * @param finishTime when it was recorded, by the database's clock
   */
  record Completed(
      Outcome outcome,
      boolean recordedWithoutBody,
      String recordId,
      int attemptNumber,
      Instant finishTime)
      implements RunResult {}

  /**
   * The work was done before and did not run now: the answer that was recorded then, byte for byte.
   *
   * @param outcome what was recorded; null if it is a failure
   * @param failure the final failure that was recorded; null if it is an outcome
   * @param recordId the record's UUID
   * @param attemptNumber that of the attempt that did it, from 1
   * @param startTime when that attempt was started, by the database's clock
   * @param finishTime when the answer was recorded, by the database's clock
   */
  record Replayed(
      @Nullable Outcome outcome,
      @Nullable Failure failure,
      String recordId,
      int attemptNumber,
      Instant startTime,
      Instant finishTime)
      implements RunResult {}

  /**
   * Somebody else is at it, the work did not run. Over HTTP: 409 with Retry-After.
   *
   * @param retryAfter how long to wait before the next call, 100 ms to 2 s
   * @param leaseRemaining what is left of the other attempt's lease; never negative
   * @param recordId the record's UUID
   * @param attemptNumber the other attempt's, from 1
   * @param startTime when the other attempt was started, by the database's clock
   */
  record InProgress(
      Duration retryAfter,
      Duration leaseRemaining,
      String recordId,
      int attemptNumber,
      Instant startTime)
      implements RunResult {}

  /**
   * This call did the work, it failed, and that is recorded.
   *
   * @param failure what is recorded
   * @param thrown what the work threw; null if it returned the failure
   * @param recordedWithoutBody as in {@link Completed}, for the failure's outcome
   * @param recordId the record's UUID
   * @param attemptNumber this attempt's, from 1
   * @param finishTime when it was recorded, by the database's clock
   */
  record Failed(
      Failure failure,
      @Nullable Throwable thrown,
      boolean recordedWithoutBody,
      String recordId,
      int attemptNumber,
      Instant finishTime)
      implements RunResult {}

  /**
   * The work ran without the service, because the caller had typed that out ({@link
   * OnUnavailable#RUN_UNPROTECTED}); nothing is recorded.
   *
   * @param work what it came to
   * @param thrown what it threw; null if it returned
   * @param error why the service was not asked
   */
  record Unprotected(WorkResult work, @Nullable Throwable thrown, IdempotencyException error)
      implements RunResult {
    @Override
    public @Nullable Outcome outcome() {
      return work.outcome();
    }
  }
}
