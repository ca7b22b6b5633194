package idempotency.client.internal;

import static idempotency.client.internal.ScriptedService.answer;
import static idempotency.client.internal.ScriptedService.next;
import static idempotency.client.internal.ScriptedService.refusal;
import static idempotency.client.internal.ScriptedService.started;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotency.client.Attempt;
import idempotency.client.CancelledException;
import idempotency.client.ClientOptions;
import idempotency.client.DeadlineExceededException;
import idempotency.client.FailureDisposition;
import idempotency.client.InternalException;
import idempotency.client.Key;
import idempotency.client.LeaseLostException;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Outcome;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.StopReason;
import idempotency.client.Work;
import idempotency.client.WorkResult;
import idempotency.v1.BeginRequest;
import idempotency.v1.BeginResponse;
import idempotency.v1.FailRequest;
import idempotency.v1.Started;
import io.grpc.Context;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The blocking face, against a service in this process. */
final class RunTest {
  static final Key KEY = new Key("acme", "k");
  static final Request REQUEST = Request.json("POST /payments", "{}");
  static final WorkResult DONE = WorkResult.completed(Outcome.status(201).build());
  static final Work NEVER =
      attempt -> {
        throw new AssertionError("the work must not run");
      };

  static Run run(ScriptedService service, RunOptions options) {
    return new Run(service.core(), KEY, REQUEST, OnLeaseExpiry.TAKE_OVER, options);
  }

  static RunResult runOnce(ScriptedService service, Work fn) {
    return run(service, RunOptions.defaults()).blocking(fn);
  }

  @Test
  void attemptIdIsFreshForEachRun() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      runOnce(service, attempt -> DONE);
      runOnce(service, attempt -> DONE);
      String first = next(service.begins).getAttemptId();
      assertTrue(first.matches("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab].*"), first);
      assertNotEquals(first, next(service.begins).getAttemptId());
    }
  }

  @Test
  void keysTtlCountsUnlessTheOptionsHaveOne() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      Key key = Key.business("acme", "pay", "order-7");
      OnLeaseExpiry action = OnLeaseExpiry.TAKE_OVER;
      new Run(service.core(), key, REQUEST, action, RunOptions.defaults()).blocking(a -> DONE);
      assertEquals(Duration.ofDays(30).toSeconds(), next(service.begins).getTtl().getSeconds());
      RunOptions options = RunOptions.builder().ttl(Duration.ofHours(1)).build();
      new Run(service.core(), key, REQUEST, action, options).blocking(a -> DONE);
      assertEquals(3600, next(service.begins).getTtl().getSeconds());
    }
  }

  @Test
  void interruptedCallerSendsNothingAndStaysInterrupted() {
    try (ScriptedService service = new ScriptedService()) {
      Thread.currentThread().interrupt();
      assertThrows(CancelledException.class, () -> runOnce(service, NEVER));
      assertTrue(Thread.interrupted());
      assertTrue(service.begins.isEmpty());
    }
  }

  @Test
  void interruptionWhileBeginIsUnderWayReleases() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      Thread caller = Thread.currentThread();
      service.onBegin = (request, answer) -> caller.interrupt();
      assertThrows(CancelledException.class, () -> runOnce(service, NEVER));
      assertTrue(Thread.interrupted());
      FailRequest release = next(service.fails);
      assertEquals("NOT_BEGUN", release.getFailure().getCode());
      assertEquals(next(service.begins).getAttemptId(), release.getAttemptId());
    }
  }

  @Test
  void interruptedWorkIsUnknownAndTheFlagIsSetAgain() {
    try (ScriptedService service = new ScriptedService()) {
      RunResult result =
          runOnce(
              service,
              attempt -> {
                Thread.currentThread().interrupt();
                Thread.sleep(60_000);
                return DONE;
              });
      assertTrue(Thread.interrupted());
      var failed = assertInstanceOf(RunResult.Failed.class, result);
      assertEquals(FailureDisposition.UNKNOWN, failed.failure().disposition());
      assertInstanceOf(InterruptedException.class, failed.thrown());
    }
  }

  @Test
  void workThatDoesNotLookAtItsInterruptionIsAskedToStop() {
    try (ScriptedService service = new ScriptedService()) {
      AtomicReference<StopReason> reason = new AtomicReference<>();
      RunResult result =
          runOnce(
              service,
              attempt -> {
                Thread.currentThread().interrupt();
                while (!attempt.stop().isRequested()) Thread.onSpinWait();
                reason.set(attempt.stop().reason());
                return DONE;
              });
      assertTrue(Thread.interrupted());
      assertEquals(StopReason.CANCELLED, reason.get());
      assertInstanceOf(RunResult.Completed.class, result);
    }
  }

  @Test
  void errorIsRecordedAsUnknownAndThrownAgain() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      StackOverflowError crash = new StackOverflowError();
      Error thrown =
          assertThrows(
              StackOverflowError.class,
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        throw crash;
                      }));
      assertSame(crash, thrown);
      assertEquals("EXCEPTION", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void errorWhoseRecordFailsTellsBoth() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onFail =
          (request, answer) -> answer.onError(refusal(Status.Code.ABORTED, "LEASE_LOST"));
      Error thrown =
          assertThrows(
              AssertionError.class,
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        throw new AssertionError();
                      }));
      assertInstanceOf(LeaseLostException.class, thrown.getSuppressed()[0]);
      assertEquals(thrown, next(service.notRecorded).thrown());
    }
  }

  @Test
  void nothingOfAnExceptionsTextIsSent() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      runOnce(
          service,
          attempt -> {
            throw new IllegalStateException("card 4111111111111111");
          });
      assertFalse(next(service.fails).toString().contains("4111"));
    }
  }

  @Test
  void anotherAttemptThanOursIsNotTaken() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            BeginRequest other = request.toBuilder().setAttemptId("another").build();
            answer(answer, started(other, ScriptedService.LEASE));
          };
      assertThrows(InternalException.class, () -> runOnce(service, NEVER));
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  static Stream<UnaryOperator<BeginResponse.Builder>> mutilations() {
    return Stream.of(
        BeginResponse.Builder::clearRecordId,
        begun -> change(begun, Started.Builder::clearAttemptNumber),
        begun -> change(begun, started -> started.setAttemptNumber(-1)),
        begun -> change(begun, Started.Builder::clearDownstreamKey),
        begun -> change(begun, started -> started.setDownstreamKey("short")),
        begun -> change(begun, Started.Builder::clearLeaseRemaining));
  }

  private static BeginResponse.Builder change(
      BeginResponse.Builder begun, UnaryOperator<Started.Builder> change) {
    return begun.setStarted(change.apply(begun.getStarted().toBuilder()));
  }

  @ParameterizedTest
  @MethodSource("mutilations")
  void startWithoutAllThatWorkNeedsIsNotTaken(UnaryOperator<BeginResponse.Builder> mutilate)
      throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            BeginResponse whole = started(request, ScriptedService.LEASE);
            answer(answer, mutilate.apply(whole.toBuilder()).build());
          };
      assertThrows(InternalException.class, () -> runOnce(service, NEVER));
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void actionThatTheClientDoesNotKnowIsTheStrictOne() {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            BeginResponse whole = started(request, ScriptedService.LEASE);
            answer(answer, whole.toBuilder().setOnLeaseExpiryValue(99).build());
          };
      AtomicReference<OnLeaseExpiry> seen = new AtomicReference<>();
      runOnce(
          service,
          attempt -> {
            seen.set(attempt.onLeaseExpiry());
            return DONE;
          });
      assertEquals(OnLeaseExpiry.HOLD, seen.get());
    }
  }

  @Test
  void longWordsOfAFailureAreTheSameHereAndInTheRecord() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      RunResult result =
          runOnce(service, a -> WorkResult.finalFailure("é".repeat(40), "x".repeat(2000)));
      var recorded = next(service.fails).getFailure();
      var failed = assertInstanceOf(RunResult.Failed.class, result).failure();
      assertEquals("é".repeat(32), failed.code());
      assertEquals(recorded.getCode(), failed.code());
      assertEquals("x".repeat(1024), failed.message());
      assertEquals(recorded.getMessage(), failed.message());
    }
  }

  @Test
  void leaseThatIsOverOnArrivalIsRenewedFirst() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin = (request, answer) -> answer(answer, started(request, Duration.ZERO));
      assertInstanceOf(RunResult.Completed.class, runOnce(service, attempt -> DONE));
      assertEquals(next(service.begins).getAttemptId(), next(service.renewals).getAttemptId());
    }
  }

  @Test
  void leaseThatCannotBeRenewedDoesNotStartTheWork() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin = (request, answer) -> answer(answer, started(request, Duration.ZERO));
      service.onRenew =
          (request, answer) -> answer.onError(refusal(Status.Code.ABORTED, "LEASE_LOST"));
      assertThrows(LeaseLostException.class, () -> runOnce(service, NEVER));
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void suspendedMachineLosesItsLease() {
    AtomicLong nanos = new AtomicLong();
    AtomicLong millis = new AtomicLong();
    LeaseClock clock = new LeaseClock(nanos::get, millis::get);
    try (ScriptedService service = new ScriptedService(ClientOptions.builder(), clock)) {
      service.onRenew = (request, answer) -> {};
      AtomicReference<Duration> before = new AtomicReference<>();
      AtomicReference<Attempt> seen = new AtomicReference<>();
      RunResult result =
          runOnce(
              service,
              attempt -> {
                before.set(attempt.leaseRemaining());
                // Ten minutes that the monotonic clock has not seen.
                millis.addAndGet(ScriptedService.LEASE.toMillis());
                seen.set(attempt);
                attempt.stop().await();
                return DONE;
              });
      assertEquals(ScriptedService.LEASE, before.get());
      assertEquals(Duration.ZERO, seen.get().leaseRemaining());
      assertEquals(StopReason.LEASE_LOST, seen.get().stop().reason());
      assertInstanceOf(RunResult.Completed.class, result);
    }
  }

  @Test
  void endOfTheCallersContextDoesNotCancelTheRecord() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      Context.CancellableContext context = Context.current().withCancellation();
      AtomicReference<StopReason> reason = new AtomicReference<>();
      RunResult result =
          context.call(
              () ->
                  runOnce(
                      service,
                      attempt -> {
                        context.cancel(null);
                        reason.set(attempt.stop().await());
                        return DONE;
                      }));
      assertEquals(StopReason.CANCELLED, reason.get());
      assertInstanceOf(RunResult.Completed.class, result);
    }
  }

  @Test
  void endedContextSendsNothing() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      Context.CancellableContext context = Context.current().withCancellation();
      context.cancel(null);
      context.run(() -> assertThrows(CancelledException.class, () -> runOnce(service, NEVER)));
      assertTrue(service.begins.isEmpty());
    }
  }

  @Test
  void deadlineThatHasPassedSendsNothing() {
    try (ScriptedService service = new ScriptedService()) {
      RunOptions options = RunOptions.builder().deadline(Duration.ofSeconds(-1)).build();
      assertThrows(DeadlineExceededException.class, () -> run(service, options).blocking(NEVER));
      assertTrue(service.begins.isEmpty());
    }
  }

  @Test
  void releaseThatCameTooEarlyIsSentOnceMore() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      Thread caller = Thread.currentThread();
      service.onBegin = (request, answer) -> caller.interrupt();
      service.onFail =
          (request, answer) -> answer.onError(refusal(Status.Code.NOT_FOUND, "RECORD_NOT_FOUND"));
      assertThrows(CancelledException.class, () -> runOnce(service, NEVER));
      assertTrue(Thread.interrupted());
      assertEquals(next(service.fails), next(service.fails));
      service.core().close();
      assertTrue(service.fails.isEmpty());
      // It is nobody's outcome.
      assertTrue(service.notRecorded.isEmpty());
    }
  }

  @Test
  void pastTheBoundAKeyIsLeftToItsLeaseButAnOutcomeIsRecorded() {
    ClientOptions.Builder options = ClientOptions.builder().maxBackgroundRecords(0);
    try (ScriptedService service = new ScriptedService(options, LeaseClock.SYSTEM)) {
      assertInstanceOf(RunResult.Completed.class, runOnce(service, attempt -> DONE));
      Thread caller = Thread.currentThread();
      service.onBegin = (request, answer) -> caller.interrupt();
      assertThrows(CancelledException.class, () -> runOnce(service, NEVER));
      assertTrue(Thread.interrupted());
      service.core().close();
      assertTrue(service.fails.isEmpty());
    }
  }
}
