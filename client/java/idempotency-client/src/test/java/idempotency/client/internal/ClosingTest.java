package idempotency.client.internal;

import static idempotency.client.internal.RunTest.DONE;
import static idempotency.client.internal.RunTest.KEY;
import static idempotency.client.internal.RunTest.NEVER;
import static idempotency.client.internal.RunTest.run;
import static idempotency.client.internal.RunTest.runOnce;
import static idempotency.client.internal.ScriptedService.answer;
import static idempotency.client.internal.ScriptedService.next;
import static idempotency.client.internal.ScriptedService.started;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import idempotency.client.AsyncWork;
import idempotency.client.ClientOptions;
import idempotency.client.OutcomeNotRecordedException;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.StopReason;
import idempotency.client.UnavailableException;
import idempotency.client.WorkResult;
import idempotency.v1.BeginRequest;
import idempotency.v1.RenewResponse;
import io.grpc.Context;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Closing the client, and the JVM's end, against a service in this process. */
final class ClosingTest {
  @Test
  void closingEndsWhatHasNotBegunAndRefusesWhatComes() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin = (request, answer) -> {};
      CompletableFuture<RunResult> waiting =
          CompletableFuture.supplyAsync(() -> runOnce(service, NEVER));
      next(service.begins);
      service.core().close();
      Throwable thrown = waiting.handle((result, error) -> error.getCause()).get();
      assertInstanceOf(UnavailableException.class, thrown);
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
      assertThrows(UnavailableException.class, () -> runOnce(service, NEVER));
      assertThrows(UnavailableException.class, () -> Lookup.of(service.core(), KEY, false));
    }
  }

  @Test
  void closingAsksWorkThatRunsToStopAndWaitsForIt() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      CountDownLatch begun = new CountDownLatch(1);
      CountDownLatch go = new CountDownLatch(1);
      AtomicReference<StopReason> reason = new AtomicReference<>();
      CompletableFuture<RunResult> working =
          CompletableFuture.supplyAsync(
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        begun.countDown();
                        reason.set(attempt.stop().await());
                        go.await();
                        return DONE;
                      }));
      begun.await();
      CompletableFuture<Void> closed = CompletableFuture.runAsync(service.core()::close);
      go.countDown();
      closed.get();
      assertInstanceOf(RunResult.Completed.class, working.get());
      assertEquals(StopReason.CLOSED, reason.get());
    }
  }

  @Test
  void workThatOutlastsTheClientIsToldToTheHook() throws Exception {
    ClientOptions.Builder options = ClientOptions.builder().shutdownTimeout(Duration.ofMillis(1));
    try (ScriptedService service = new ScriptedService(options, LeaseClock.SYSTEM)) {
      CountDownLatch begun = new CountDownLatch(1);
      CountDownLatch go = new CountDownLatch(1);
      CompletableFuture<RunResult> working =
          CompletableFuture.supplyAsync(
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        begun.countDown();
                        go.await();
                        return DONE;
                      }));
      begun.await();
      service.core().close();
      go.countDown();
      Throwable thrown = working.handle((result, error) -> error.getCause()).get();
      var error = assertInstanceOf(OutcomeNotRecordedException.class, thrown);
      assertFalse(error.stillRecording());
      assertSame(DONE, error.work());
      assertSame(DONE, next(service.notRecorded).work());
    }
  }

  @Test
  void recordUnderWayIsGivenUpWhenTheClientCloses() throws Exception {
    ClientOptions.Builder options = ClientOptions.builder().shutdownTimeout(Duration.ofMillis(1));
    try (ScriptedService service = new ScriptedService(options, LeaseClock.SYSTEM)) {
      service.onComplete = (request, answer) -> {};
      CompletableFuture<RunResult> working =
          CompletableFuture.supplyAsync(() -> runOnce(service, attempt -> DONE));
      next(service.completes);
      service.core().close();
      assertSame(DONE, next(service.notRecorded).work());
      Throwable thrown = working.handle((result, error) -> error.getCause()).get();
      assertInstanceOf(OutcomeNotRecordedException.class, thrown);
      assertNull(service.fails.poll());
    }
  }

  @Test
  void leaseIsRenewedWhileClosingWaits() throws Exception {
    ClientOptions.Builder options = ClientOptions.builder().shutdownTimeout(Duration.ofMinutes(5));
    try (ScriptedService service = new ScriptedService(options, LeaseClock.SYSTEM)) {
      Duration lease = Duration.ofSeconds(3);
      service.onBegin = (request, answer) -> answer(answer, started(request, lease));
      service.onRenew =
          (request, answer) ->
              answer(
                  answer,
                  RenewResponse.newBuilder().setLeaseRemaining(ToProto.duration(lease)).build());
      CountDownLatch begun = new CountDownLatch(1);
      CompletableFuture<RunResult> working =
          CompletableFuture.supplyAsync(
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        begun.countDown();
                        attempt.stop().await();
                        service.renewals.clear();
                        next(service.renewals);
                        return DONE;
                      }));
      begun.await();
      service.core().close();
      assertInstanceOf(RunResult.Completed.class, working.get());
    }
  }

  @Test
  void workThatQueuesDoesNotBeginOnAClosingClient() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
      AsyncWork never = attempt -> CompletableFuture.completedFuture(NEVER.run(attempt));
      CompletableFuture<RunResult> future =
          run(service, RunOptions.defaults()).async(never, queue::add);
      Runnable queued = next(queue);
      service.core().close();
      queued.run();
      Throwable thrown = future.handle((result, error) -> error).get();
      assertInstanceOf(UnavailableException.class, thrown);
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void workDoesNotBeginOnceTheClientCloses() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      AsyncWork never = attempt -> CompletableFuture.completedFuture(NEVER.run(attempt));
      CompletableFuture<Void> closed = new CompletableFuture<>();
      // Between the answer to Begin and the work.
      Executor closing =
          task -> {
            var unused =
                CompletableFuture.runAsync(service.core()::close)
                    .thenRun(() -> closed.complete(null));
            while (!service.core().isClosing()) Thread.onSpinWait();
            task.run();
          };
      CompletableFuture<RunResult> future =
          run(service, RunOptions.defaults()).async(never, closing);
      Throwable thrown = future.handle((result, error) -> error).get();
      assertInstanceOf(UnavailableException.class, thrown);
      closed.get();
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void sessionOfAClosingClientIsRefusedThoughItsCallerStillWaits() {
    try (ScriptedService service = new ScriptedService()) {
      Core core = service.core();
      Caller caller = new Caller(core.timers, null);
      BeginRequest begin = BeginRequest.newBuilder().setAttemptId("attempt").build();
      Owner owner = new Owner(core, Context.ROOT, begin);
      Run.Parts parts =
          new Run.Parts(core, KEY, RunOptions.defaults(), caller, Context.ROOT, owner);
      Lease lease = new Lease(core.clock.now(), ScriptedService.LEASE.toNanos());
      Starter.Start start = new Starter.Granted(started(begin, ScriptedService.LEASE), lease);
      Session session = new Session(parts, start, () -> {});
      core.close();
      assertFalse(caller.isGone());
      Ending refused = Objects.requireNonNull(session.refusal());
      assertThrows(UnavailableException.class, refused::orThrow);
    }
  }

  @Test
  void jvmStaysUpWhileSomethingIsPending() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      StayAlive stayAlive = service.core().stayAlive;
      assertNull(stayAlive.thread());
      CompletableFuture<WorkResult> work = new CompletableFuture<>();
      CompletableFuture<RunResult> future =
          run(service, RunOptions.defaults()).async(attempt -> work, Runnable::run);
      Thread thread = stayAlive.thread();
      assertFalse(Objects.requireNonNull(thread).isDaemon());
      work.complete(DONE);
      future.get();
      thread.join();
      assertNull(stayAlive.thread());
    }
  }

  @Test
  void jvmStaysUpForARecordUntilTheClientIsClosed() throws Exception {
    ClientOptions.Builder options = ClientOptions.builder().shutdownTimeout(Duration.ofMillis(1));
    try (ScriptedService service = new ScriptedService(options, LeaseClock.SYSTEM)) {
      service.onComplete = (request, answer) -> {};
      CompletableFuture<RunResult> working =
          CompletableFuture.supplyAsync(() -> runOnce(service, attempt -> DONE));
      next(service.completes);
      Thread thread = Objects.requireNonNull(service.core().stayAlive.thread());
      assertFalse(thread.isDaemon());
      service.core().close();
      thread.join();
      assertInstanceOf(
          OutcomeNotRecordedException.class, working.handle((r, e) -> e.getCause()).get());
    }
  }
}
