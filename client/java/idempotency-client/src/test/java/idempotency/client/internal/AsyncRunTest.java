package idempotency.client.internal;

import static idempotency.client.internal.RunTest.DONE;
import static idempotency.client.internal.RunTest.run;
import static idempotency.client.internal.ScriptedService.answer;
import static idempotency.client.internal.ScriptedService.next;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotency.client.AsyncWork;
import idempotency.client.ClientOptions;
import idempotency.client.FailureDisposition;
import idempotency.client.LeaseLostException;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.StopReason;
import idempotency.client.WorkResult;
import idempotency.v1.BeginRequest;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** The async face, against a service in this process. */
final class AsyncRunTest {
  private static final AsyncWork NEVER =
      attempt -> {
        throw new AssertionError("the work must not run");
      };

  private static CompletableFuture<RunResult> start(ScriptedService service, AsyncWork fn) {
    return run(service, RunOptions.defaults()).async(fn, ForkJoinPool.commonPool());
  }

  private static RunResult.Failed unknown(CompletableFuture<RunResult> future) {
    var failed = assertInstanceOf(RunResult.Failed.class, future.join());
    assertEquals(FailureDisposition.UNKNOWN, failed.failure().disposition());
    return failed;
  }

  @Test
  void answersLater() {
    try (ScriptedService service = new ScriptedService()) {
      CompletableFuture<WorkResult> later = new CompletableFuture<>();
      CompletableFuture<RunResult> result = start(service, attempt -> later);
      later.complete(DONE);
      assertSame(DONE.outcome(), result.join().outcome());
    }
  }

  @Test
  void stageThatFailsIsUnknown() {
    try (ScriptedService service = new ScriptedService()) {
      IllegalStateException thrown = new IllegalStateException();
      // thenApply wraps what it is given; what is told is what was thrown.
      CompletableFuture<WorkResult> failing =
          CompletableFuture.<WorkResult>failedFuture(thrown).thenApply(value -> value);
      assertSame(thrown, unknown(start(service, attempt -> failing)).thrown());
    }
  }

  @Test
  void stageOfNothingAndNoStageAreUnknown() {
    try (ScriptedService service = new ScriptedService()) {
      unknown(start(service, attempt -> CompletableFuture.completedFuture(null)));
      unknown(start(service, attempt -> null));
    }
  }

  @Test
  void stageThatIsCancelledIsUnknown() {
    try (ScriptedService service = new ScriptedService()) {
      CompletableFuture<WorkResult> cancelled = new CompletableFuture<>();
      cancelled.cancel(true);
      unknown(start(service, attempt -> cancelled));
    }
  }

  @Test
  void errorEndsTheFuture() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      AssertionError crash = new AssertionError();
      CompletableFuture<RunResult> future =
          start(
              service,
              attempt -> {
                throw crash;
              });
      assertSame(crash, assertThrows(CompletionException.class, future::join).getCause());
      assertEquals("EXCEPTION", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void cancelledFutureAsksTheWorkToStopAndRecordsItsEnd() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      CompletableFuture<StopReason> reason = new CompletableFuture<>();
      CompletableFuture<WorkResult> work = new CompletableFuture<>();
      CompletableFuture<Void> begun = new CompletableFuture<>();
      CompletableFuture<RunResult> future =
          start(
              service,
              attempt -> {
                attempt.stop().onRequest(() -> reason.complete(attempt.stop().reason()));
                begun.complete(null);
                return work;
              });
      begun.join();
      future.cancel(true);
      assertEquals(StopReason.CANCELLED, reason.join());
      work.complete(DONE);
      assertEquals(201, next(service.completes).getOutcome().getStatusCode());
      assertTrue(service.notRecorded.isEmpty());
    }
  }

  @Test
  void futureEndedByItsTimeoutIsACallerThatLeft() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin = (request, answer) -> {};
      CompletableFuture<RunResult> future = start(service, NEVER);
      next(service.begins);
      future.orTimeout(1, TimeUnit.MILLISECONDS);
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void cancelledFutureBeforeTheWorkReleases() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin = (request, answer) -> {};
      CompletableFuture<RunResult> future = start(service, NEVER);
      next(service.begins);
      future.cancel(false);
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void callerThatLeavesWhileTheWorkQueuesReleases() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
      CompletableFuture<RunResult> future =
          run(service, RunOptions.defaults()).async(NEVER, queue::add);
      Runnable queued = next(queue);
      future.cancel(true);
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
      queued.run();
      service.core().close();
      assertTrue(service.fails.isEmpty());
    }
  }

  @Test
  void leaseThatRunsOutWhileTheWorkQueuesDoesNotStartIt() throws Exception {
    AtomicLong nanos = new AtomicLong();
    LeaseClock clock = new LeaseClock(nanos::get, () -> 0);
    try (ScriptedService service = new ScriptedService(ClientOptions.builder(), clock)) {
      service.onRenew = (request, answer) -> {};
      BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
      RunOptions options = RunOptions.defaults();
      CompletableFuture<RunResult> future = run(service, options).async(NEVER, queue::add);
      Runnable queued = next(queue);
      nanos.addAndGet(ScriptedService.LEASE.toNanos());
      queued.run();
      CompletionException thrown = assertThrows(CompletionException.class, future::join);
      assertInstanceOf(LeaseLostException.class, thrown.getCause());
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void waitThatTheServiceEndedEarlyGoesOn() {
    try (ScriptedService service = new ScriptedService()) {
      AtomicInteger begins = new AtomicInteger();
      service.onBegin =
          (request, answer) ->
              answer(
                  answer,
                  begins.incrementAndGet() < 3
                      ? ScriptedService.inProgress()
                      : ScriptedService.started(request, ScriptedService.LEASE));
      RunOptions options = RunOptions.builder().waitTimeout(Duration.ofMinutes(1)).build();
      AsyncWork done = attempt -> CompletableFuture.completedFuture(DONE);
      RunResult result = run(service, options).async(done, Runnable::run).join();
      assertInstanceOf(RunResult.Completed.class, result);
      assertTrue(service.begins.stream().allMatch(BeginRequest::hasWaitTimeout));
      assertEquals(1, service.begins.stream().map(BeginRequest::getAttemptId).distinct().count());
    }
  }
}
