package idempotency.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotency.client.Attempt;
import idempotency.client.CancelledException;
import idempotency.client.ErrorKind;
import idempotency.client.FailureDisposition;
import idempotency.client.IdempotencyException;
import idempotency.client.IdempotencyRecord;
import idempotency.client.InvalidFieldException;
import idempotency.client.Key;
import idempotency.client.KeyReusedException;
import idempotency.client.NeedsResolutionException;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.Outcome;
import idempotency.client.OutcomeNotRecordedException;
import idempotency.client.RecordNotFoundException;
import idempotency.client.RecordState;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.UnavailableException;
import idempotency.client.Work;
import idempotency.client.WorkResult;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** The fake answers as the service does. */
final class FakeRunnerTest {
  private static final Key KEY = new Key("acme", "k");
  private static final Request REQUEST = Request.json("POST /payments", "{\"amount\":50}");
  private static final Outcome OUTCOME = Outcome.status(201).json("{\"id\":7}").build();
  private static final Work PAY = attempt -> WorkResult.completed(OUTCOME);
  private static final Work NEVER =
      attempt -> {
        throw new AssertionError("the work must not run");
      };

  private final FakeRunner runner = new FakeRunner();
  private final AtomicReference<Attempt> seen = new AtomicReference<>();

  private RunResult run(Work fn) {
    return runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, fn);
  }

  private Work paying() {
    return attempt -> {
      seen.set(attempt);
      return WorkResult.completed(OUTCOME);
    };
  }

  @Test
  void replaysWhatWasCompleted() {
    var completed = assertInstanceOf(RunResult.Completed.class, run(PAY));
    var replayed = assertInstanceOf(RunResult.Replayed.class, run(NEVER));
    assertEquals(OUTCOME, replayed.outcome());
    assertEquals(completed.recordId(), replayed.recordId());
    assertEquals(completed.finishTime(), replayed.finishTime());
    assertEquals(RecordState.COMPLETED, runner.lookup(KEY, false).state());
  }

  @Test
  void replaysFinalFailures() {
    run(attempt -> WorkResult.finalFailure("DECLINED", "no cover", OUTCOME));
    var replayed = assertInstanceOf(RunResult.Replayed.class, run(NEVER));
    assertNull(replayed.outcome());
    assertEquals("DECLINED", replayed.failure().code());
    assertEquals(RecordState.FAILED, runner.lookup(KEY, false).state());
  }

  @Test
  void notAppliedFreesTheKey() {
    run(attempt -> WorkResult.notApplied("BUSY", "later"));
    assertEquals(RecordState.RELEASED, runner.lookup(KEY, false).state());
    run(paying());
    assertEquals(2, seen.get().attemptNumber());
    assertEquals(0, seen.get().unknownAttempts());
    assertEquals(
        FailureDisposition.NOT_APPLIED, seen.get().previousAttempt().failure().disposition());
  }

  @Test
  void whatWasThrownIsUnknownAndToldToTheNext() {
    IOException thrown = new IOException("reset");
    var failed =
        assertInstanceOf(
            RunResult.Failed.class,
            run(
                attempt -> {
                  seen.set(attempt);
                  throw thrown;
                }));
    assertSame(thrown, failed.thrown());
    assertEquals(FailureDisposition.UNKNOWN, failed.failure().disposition());
    String downstreamKey = seen.get().downstreamKey();
    run(paying());
    assertEquals(1, seen.get().unknownAttempts());
    assertEquals(downstreamKey, seen.get().downstreamKey());
  }

  @Test
  void classifyKnowsBetter() {
    RunOptions options =
        RunOptions.builder().classify(thrown -> FailureDisposition.NOT_APPLIED).build();
    Work failing =
        attempt -> {
          throw new IOException();
        };
    runner.runOnce(KEY, REQUEST, OnLeaseExpiry.HOLD, failing, options);
    assertEquals(RecordState.RELEASED, runner.lookup(KEY, false).state());
  }

  @Test
  void errorIsUnknownAndThrownAgain() {
    AssertionError crash = new AssertionError();
    AssertionError thrown =
        assertThrows(
            AssertionError.class,
            () ->
                run(
                    attempt -> {
                      throw crash;
                    }));
    assertSame(crash, thrown);
    assertEquals(RecordState.ABANDONED, runner.lookup(KEY, false).state());
  }

  @Test
  void nullIsUnknown() {
    var failed = assertInstanceOf(RunResult.Failed.class, run(attempt -> null));
    assertInstanceOf(NullPointerException.class, failed.thrown());
  }

  @Test
  void holdNeedsResolution() {
    runner.crashAttempt(KEY, REQUEST, OnLeaseExpiry.HOLD);
    assertThrows(NeedsResolutionException.class, () -> run(NEVER));
  }

  @Test
  void crashedAttemptIsTakenOver() {
    runner.crashAttempt(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER);
    run(paying());
    assertEquals(1, seen.get().unknownAttempts());
    assertNull(seen.get().previousAttempt().failure());
  }

  @Test
  void lostRecordComesBackWithTheWork() {
    runner.loseNextRecord();
    var error = assertThrows(OutcomeNotRecordedException.class, () -> run(PAY));
    assertEquals(OUTCOME, error.work().outcome());
    run(paying());
    assertEquals(1, seen.get().unknownAttempts());
  }

  @Test
  void failedStartRunsNothing() {
    IdempotencyException away = IdempotencyException.builder(ErrorKind.UNAVAILABLE).build();
    runner.failNextStart(away);
    assertSame(away, assertThrows(UnavailableException.class, () -> run(NEVER)));
    assertThrows(RecordNotFoundException.class, () -> runner.lookup(KEY, false));
    assertInstanceOf(RunResult.Completed.class, run(PAY));
  }

  @Test
  void awayRunsUnprotectedWhereThatIsTypedOut() {
    RunOptions options = RunOptions.builder().onUnavailable(OnUnavailable.RUN_UNPROTECTED).build();
    IdempotencyException away = IdempotencyException.builder(ErrorKind.UNAVAILABLE).build();
    runner.failNextStart(away);
    var result =
        assertInstanceOf(
            RunResult.Unprotected.class,
            runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, paying(), options));
    assertSame(away, result.error());
    assertTrue(seen.get().unprotected());
    assertEquals(1, runner.unprotectedRuns());
    assertThrows(RecordNotFoundException.class, () -> runner.lookup(KEY, false));
    runner.failNextStart(
        IdempotencyException.builder(ErrorKind.UNAVAILABLE).reason("COMMIT_UNKNOWN").build());
    assertThrows(
        UnavailableException.class,
        () -> runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, NEVER, options));
  }

  @Test
  void anotherRequestIsRefused() {
    run(PAY);
    Request other = Request.json("POST /payments", "{\"amount\":51}");
    assertThrows(
        KeyReusedException.class, () -> runner.runOnce(KEY, other, OnLeaseExpiry.TAKE_OVER, NEVER));
  }

  @Test
  void badArgumentsAreRefused() {
    assertThrows(InvalidFieldException.class, () -> run(null));
    assertThrows(InvalidFieldException.class, () -> runner.runOnce(KEY, REQUEST, null, NEVER));
  }

  @Test
  void somebodyElseIsAtIt() {
    run(
        attempt -> {
          assertInstanceOf(RunResult.InProgress.class, run(NEVER));
          return WorkResult.completed(OUTCOME);
        });
  }

  @Test
  void waitsForAnotherThread() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    CompletableFuture<RunResult> first =
        CompletableFuture.supplyAsync(
            () ->
                run(
                    attempt -> {
                      begun.countDown();
                      go.await();
                      return WorkResult.completed(OUTCOME);
                    }));
    begun.await();
    RunOptions waiting = RunOptions.builder().waitTimeout(Duration.ofMinutes(1)).build();
    CompletableFuture<RunResult> second =
        CompletableFuture.supplyAsync(
            () -> runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, NEVER, waiting));
    go.countDown();
    assertInstanceOf(RunResult.Replayed.class, second.get());
    assertInstanceOf(RunResult.Completed.class, first.get());
  }

  @Test
  void interruptedCallerLeaves() {
    Thread.currentThread().interrupt();
    assertThrows(CancelledException.class, () -> run(NEVER));
    assertTrue(Thread.interrupted());
  }

  @Test
  void asyncFacesDoTheSame() {
    RunResult completed =
        runner
            .runOnceAsync(
                KEY,
                REQUEST,
                OnLeaseExpiry.TAKE_OVER,
                attempt -> CompletableFuture.completedFuture(WorkResult.completed(OUTCOME)),
                RunOptions.defaults())
            .join();
    assertInstanceOf(RunResult.Completed.class, completed);
    RunResult replayed =
        runner
            .runOnceAsync(
                KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, NEVER, Runnable::run, RunOptions.defaults())
            .join();
    assertInstanceOf(RunResult.Replayed.class, replayed);
  }

  @Test
  void executorThatRefusesRunsNothing() {
    CompletableFuture<RunResult> refused =
        runner.runOnceAsync(
            KEY,
            REQUEST,
            OnLeaseExpiry.TAKE_OVER,
            NEVER,
            task -> {
              throw new RejectedExecutionException();
            },
            RunOptions.defaults());
    CompletionException thrown = assertThrows(CompletionException.class, refused::join);
    assertInstanceOf(UnavailableException.class, thrown.getCause());
  }

  @Test
  void executorWithABugEndsTheFutureTyped() {
    NoClassDefFoundError bug = new NoClassDefFoundError();
    CompletableFuture<RunResult> refused =
        runner.runOnceAsync(
            KEY,
            REQUEST,
            OnLeaseExpiry.TAKE_OVER,
            NEVER,
            task -> {
              throw bug;
            },
            RunOptions.defaults());
    CompletionException thrown = assertThrows(CompletionException.class, refused::join);
    assertSame(bug, assertInstanceOf(UnavailableException.class, thrown.getCause()).getCause());
  }

  @Test
  void longestWaitIsTaken() {
    RunOptions options = RunOptions.builder().waitTimeout(Duration.ofDays(365L * 9000)).build();
    RunResult result = runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, PAY, options);
    assertInstanceOf(RunResult.Completed.class, result);
  }

  @Test
  void unprotectedWorkHasALeaseWithoutEnd() {
    runner.failNextStart(
        IdempotencyException.builder(ErrorKind.UNAVAILABLE).reason("DRAINING").build());
    RunOptions options = RunOptions.builder().onUnavailable(OnUnavailable.RUN_UNPROTECTED).build();
    runner.runOnce(KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, paying(), options);
    assertTrue(seen.get().leaseRemaining().compareTo(Duration.ofDays(3650)) > 0);
  }

  @Test
  void lookupShowsTheBodyOnlyWhenAskedFor() {
    RunOptions labelled = RunOptions.builder().label("order", "7").build();
    runner.runOnce(KEY, REQUEST, OnLeaseExpiry.HOLD, PAY, labelled);
    IdempotencyRecord record = runner.lookup(KEY, false);
    assertNull(record.outcome().body());
    assertEquals(8, record.outcome().bodySize());
    assertEquals(32, record.outcome().bodySha256().size());
    assertEquals("7", record.labels().get("order"));
    assertEquals(OnLeaseExpiry.HOLD, record.onLeaseExpiry());
    assertNotNull(record.finishTime());
    assertFalse(record.expired());
    assertEquals("{\"id\":7}", runner.lookup(KEY, true).outcome().bodyText());
  }
}
