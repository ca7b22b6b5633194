package idempotency.client.internal;

import idempotency.client.Failure;
import idempotency.client.FailureDisposition;
import idempotency.client.RunResult;
import idempotency.client.WorkResult;
import java.time.Instant;
import java.util.Objects;
import java.util.concurrent.CompletionException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * What work came to: the one place where what it threw becomes a result, for the client and the
 * fake alike.
 *
 * @param work what it returned, or what its exception stands for
 * @param thrown what it threw; null if it returned
 */
public record WorkEnd(WorkResult work, @Nullable Throwable thrown) {
  private static final String CODE = "EXCEPTION";

  /** Of work that returned; null counts as not known. */
  public static WorkEnd returned(@Nullable WorkResult work) {
    if (work != null) return new WorkEnd(work, null);
    return threw(new NullPointerException("the work returned null"), null);
  }

  /** Of work that threw. */
  public static WorkEnd threw(
      Throwable thrown, @Nullable Function<? super Exception, FailureDisposition> classify) {
    Throwable inner = thrown;
    while (inner instanceof CompletionException && inner.getCause() != null) {
      inner = inner.getCause();
    }
    FailureDisposition disposition = FailureDisposition.UNKNOWN;
    if (classify != null && inner instanceof Exception exception) {
      disposition = classified(exception, classify);
    }
    // What the exception says stays with the caller: it may hold card numbers.
    String message =
        switch (disposition) {
          case NOT_APPLIED -> "the work threw, by its own account before any effect";
          case FINAL -> "the work threw, by its own account for good";
          case UNKNOWN -> "the work threw, and whether it had an effect is not known";
        };
    Failure failure = new Failure(disposition, CODE, message, null);
    return new WorkEnd(WorkResult.failed(failure), inner);
  }

  private static FailureDisposition classified(
      Exception exception, Function<? super Exception, FailureDisposition> classify) {
    try {
      FailureDisposition disposition = classify.apply(exception);
      return disposition == null ? FailureDisposition.UNKNOWN : disposition;
    } catch (Throwable alsoNotKnown) {
      // Errors and checked exceptions, too, which other languages throw undeclared.
      return FailureDisposition.UNKNOWN;
    }
  }

  /** The result, once it is recorded. */
  public RunResult recorded(
      boolean withoutBody, String recordId, int attemptNumber, Instant finishTime) {
    if (work.outcome() != null) {
      return new RunResult.Completed(
          work.outcome(), withoutBody, recordId, attemptNumber, finishTime);
    }
    Failure failure = Objects.requireNonNull(work.failure());
    return new RunResult.Failed(failure, thrown, withoutBody, recordId, attemptNumber, finishTime);
  }
}
