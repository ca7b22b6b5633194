package idempotency.client.testing;

import idempotency.client.AsyncWork;
import idempotency.client.Attempt;
import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.IdempotencyRecord;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.RecordNotFoundException;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.Runner;
import idempotency.client.StopReason;
import idempotency.client.StopSignal;
import idempotency.client.Work;
import idempotency.client.internal.Arguments;
import idempotency.client.internal.Moment;
import idempotency.client.internal.UnprotectedRun;
import idempotency.client.internal.WorkEnd;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import org.jspecify.annotations.Nullable;

/**
 * A {@link Runner} in memory, for tests of code that does its work through one. No server, no
 * clock, no threads of its own.
 *
 * <p>It answers as the service does: replays, key reuse, attempts that ended unknown, HOLD, waiting
 * for another thread's outcome, not applied that frees the key. It has no leases that run out,
 * nothing expires, and a JSON body is compared byte for byte. To see the real thing run {@code
 * idempotencyd dev --ephemeral} and use {@link idempotency.client.IdempotencyClient}.
 *
 * <p>Thread-safe.
 */
public final class FakeRunner implements Runner {
  private final Map<String, FakeRecord> records = new HashMap<>();
  private @Nullable IdempotencyException nextStartError;
  private boolean losesNextRecord;
  private long unprotectedRuns;
  private long lastNumber;

  /** A runner that knows of no key. */
  public FakeRunner() {}

  /**
   * The next call ends with this error before its work runs, as if the service were away, say. If
   * it looks like that (UNAVAILABLE, without a reason or with one that says nothing was done) and
   * the call says {@link OnUnavailable#RUN_UNPROTECTED}, the work runs unprotected.
   */
  public synchronized void failNextStart(IdempotencyException error) {
    nextStartError = Objects.requireNonNull(error, "error");
  }

  /**
   * What the next work comes to is not recorded: {@link
   * idempotency.client.OutcomeNotRecordedException}, and the attempt ends unknown.
   */
  public synchronized void loseNextRecord() {
    losesNextRecord = true;
  }

  /**
   * As if a process had died in its work: the key has an attempt that ended unknown.
   *
   * @throws IllegalStateException if a call with these arguments would not do the work
   */
  public synchronized void crashAttempt(Key key, Request request, OnLeaseExpiry onLeaseExpiry) {
    Arguments.check(key, request, onLeaseExpiry, this, RunOptions.defaults());
    FakeRecord record = recordOf(key, request, RunOptions.defaults());
    if (record.answerWithoutWork() != null) throw new IllegalStateException("not to be done");
    record.start(onLeaseExpiry, ++lastNumber);
    record.isRunning = false;
  }

  /** How often work ran unprotected. */
  public synchronized long unprotectedRuns() {
    return unprotectedRuns;
  }

  @Override
  public RunResult runOnce(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, Work fn, RunOptions options) {
    return run(key, request, onLeaseExpiry, fn, options, new StopSignal());
  }

  @Override
  public CompletableFuture<RunResult> runOnceAsync(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, AsyncWork fn, RunOptions options) {
    return runAsync(
        key,
        request,
        onLeaseExpiry,
        fn == null ? null : now(fn),
        ForkJoinPool.commonPool(),
        options);
  }

  @Override
  public CompletableFuture<RunResult> runOnceAsync(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      Work fn,
      Executor executor,
      RunOptions options) {
    Objects.requireNonNull(executor, "executor");
    return runAsync(key, request, onLeaseExpiry, fn, executor, options);
  }

  private static Work now(AsyncWork fn) {
    return attempt -> fn.run(attempt).toCompletableFuture().join();
  }

  private CompletableFuture<RunResult> runAsync(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      @Nullable Work fn,
      Executor executor,
      RunOptions options) {
    CompletableFuture<RunResult> result = new CompletableFuture<>();
    StopSignal stop = new StopSignal();
    var unused = result.whenComplete((value, thrown) -> stop.request(StopReason.CANCELLED));
    try {
      executor.execute(
          () -> {
            try {
              result.complete(run(key, request, onLeaseExpiry, fn, options, stop));
            } catch (Throwable thrown) {
              result.completeExceptionally(thrown);
            }
          });
    } catch (Throwable refused) {
      result.completeExceptionally(
          error(ErrorKind.UNAVAILABLE, "the executor refused the work").cause(refused).build());
    }
    return result;
  }

  /**
   * What is known about a key.
   *
   * @throws RecordNotFoundException if nothing is
   */
  @Override
  public synchronized IdempotencyRecord lookup(Key key, boolean includeBody) {
    Arguments.check(key);
    FakeRecord record = records.get(nameOf(key));
    if (record == null || record.isNew()) {
      throw error(ErrorKind.RECORD_NOT_FOUND, "nothing is known about the key")
          .reason("RECORD_NOT_FOUND")
          .build();
    }
    return record.lookUp(includeBody);
  }

  private RunResult run(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      @Nullable Work fn,
      RunOptions options,
      StopSignal stop) {
    Arguments.check(key, request, onLeaseExpiry, fn, options);
    FakeRecord record;
    IdempotencyException unprotectedBecause = null;
    Attempt attempt;
    synchronized (this) {
      if (Thread.currentThread().isInterrupted() || stop.isRequested()) {
        throw error(ErrorKind.CANCELLED, "the caller left").build();
      }
      IdempotencyException failure = nextStartError;
      nextStartError = null;
      if (failure != null) {
        boolean runs = options.onUnavailable() == OnUnavailable.RUN_UNPROTECTED;
        if (!runs || !UnprotectedRun.mayFollow(failure)) throw failure;
        unprotectedRuns++;
        unprotectedBecause = failure;
        record = null;
        attempt = UnprotectedRun.attempt().stop(stop).build();
      } else {
        record = recordOf(key, request, options);
        awaitEnd(record, options);
        RunResult answer = record.answerWithoutWork();
        if (answer != null) return answer;
        attempt = record.start(onLeaseExpiry, ++lastNumber).stop(stop).build();
      }
    }
    WorkEnd work = work(Objects.requireNonNull(fn), attempt, options);
    RunResult result =
        unprotectedBecause != null
            ? UnprotectedRun.result(work, unprotectedBecause)
            : end(Objects.requireNonNull(record), work);
    if (work.thrown() instanceof Error crash) throw crash;
    return result;
  }

  private static WorkEnd work(Work fn, Attempt attempt, RunOptions options) {
    try {
      return WorkEnd.returned(fn.run(attempt));
    } catch (Throwable thrown) {
      if (thrown instanceof InterruptedException) Thread.currentThread().interrupt();
      return WorkEnd.threw(thrown, options.classify());
    }
  }

  private synchronized RunResult end(FakeRecord record, WorkEnd work) {
    record.isRunning = false;
    notifyAll();
    if (losesNextRecord) {
      losesNextRecord = false;
      throw error(ErrorKind.OUTCOME_NOT_RECORDED, "the record is lost")
          .work(work.work())
          .thrown(work.thrown())
          .build();
    }
    return record.end(work);
  }

  private void awaitEnd(FakeRecord record, RunOptions options) {
    long end = System.nanoTime() + Moment.nanosOf(options.waitTimeout());
    try {
      while (record.isRunning && end - System.nanoTime() > 0) {
        wait(Math.max(1, (end - System.nanoTime()) / 1_000_000));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw error(ErrorKind.CANCELLED, "the caller left").build();
    }
  }

  private FakeRecord recordOf(Key key, Request request, RunOptions options) {
    FakeRecord record =
        records.computeIfAbsent(
            nameOf(key), name -> new FakeRecord(request, options.labels(), ++lastNumber));
    if (!record.request.equals(request)) {
      throw error(ErrorKind.KEY_REUSED, "the key was used for another request")
          .reason("KEY_REUSED")
          .build();
    }
    return record;
  }

  // Neither may hold a line break where the service is to take it.
  private static String nameOf(Key key) {
    return key.merchantId() + "\n" + key.idempotencyKey();
  }

  private static IdempotencyException.Builder error(ErrorKind kind, String message) {
    return IdempotencyException.builder(kind).message("FakeRunner: " + message);
  }
}
