package idempotency.client.internal;

import static idempotency.client.internal.RunTest.DONE;
import static idempotency.client.internal.RunTest.run;
import static idempotency.client.internal.RunTest.runOnce;
import static idempotency.client.internal.ScriptedService.next;
import static idempotency.client.internal.ScriptedService.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotency.client.AsyncWork;
import idempotency.client.FailureDisposition;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.UnavailableException;
import idempotency.client.WorkResult;
import idempotency.client.testing.FakeRunner;
import io.grpc.Status;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Whatever the application's own code throws, no outcome is lost and nobody waits for ever. */
final class HostileCodeTest {
  static Stream<Throwable> throwables() {
    return Stream.of(
        new IllegalStateException("a bug"),
        new AssertionError("a bug"),
        new NoClassDefFoundError("a bug"),
        new RejectedExecutionException("full"),
        // Not declared anywhere: as Kotlin throws it.
        new IOException("a bug"));
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> RuntimeException sneak(Throwable thrown) throws T {
    throw (T) thrown;
  }

  private static RuntimeException sneaky(Throwable thrown) {
    return HostileCodeTest.<RuntimeException>sneak(thrown);
  }

  private static RunOptions classifying(Throwable thrown) {
    return RunOptions.builder()
        .classify(
            exception -> {
              throw sneaky(thrown);
            })
        .build();
  }

  private static ScriptedService withHooksThatThrow(Throwable thrown) {
    return new ScriptedService() {
      @Override
      public void onRetry(String rpc, IdempotencyException error) {
        throw sneaky(thrown);
      }

      @Override
      public void refreshCredentials() {
        throw sneaky(thrown);
      }

      @Override
      public void onOutcomeNotRecorded(Key key, WorkResult work, IdempotencyException error) {
        super.onOutcomeNotRecorded(key, work, error);
        throw sneaky(thrown);
      }
    };
  }

  private static void assertUnknown(RunResult result, Throwable work) {
    var failed = assertInstanceOf(RunResult.Failed.class, result);
    assertEquals(FailureDisposition.UNKNOWN, failed.failure().disposition());
    assertSame(work, failed.thrown());
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void classifyThatThrowsIsUnknown(Throwable thrown) throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      IllegalStateException work = new IllegalStateException();
      RunResult result =
          run(service, classifying(thrown))
              .blocking(
                  attempt -> {
                    throw work;
                  });
      assertUnknown(result, work);
      assertEquals("EXCEPTION", next(service.fails).getFailure().getCode());
    }
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void classifyThatThrowsOfAStageIsUnknown(Throwable thrown) {
    try (ScriptedService service = new ScriptedService()) {
      CompletableFuture<WorkResult> work = new CompletableFuture<>();
      CompletableFuture<RunResult> result =
          run(service, classifying(thrown)).async(attempt -> work, ForkJoinPool.commonPool());
      IllegalStateException failure = new IllegalStateException();
      work.completeExceptionally(failure);
      assertUnknown(result.join(), failure);
    }
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void classifyThatThrowsIsUnknownToTheFake(Throwable thrown) {
    IllegalStateException work = new IllegalStateException();
    RunResult result =
        new FakeRunner()
            .runOnce(
                RunTest.KEY,
                RunTest.REQUEST,
                idempotency.client.OnLeaseExpiry.TAKE_OVER,
                attempt -> {
                  throw work;
                },
                classifying(thrown));
    assertUnknown(result, work);
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void hooksThatThrowCostNoOutcome(Throwable thrown) {
    try (ScriptedService service = withHooksThatThrow(thrown)) {
      AtomicInteger tries = new AtomicInteger();
      var working = service.onComplete;
      service.onComplete =
          (request, answer) -> {
            switch (tries.incrementAndGet()) {
              case 1 -> answer.onError(Status.UNAVAILABLE.asRuntimeException());
              case 2 -> answer.onError(refusal(Status.Code.UNAUTHENTICATED, "CREDENTIALS_INVALID"));
              default -> working.accept(request, answer);
            }
          };
      assertInstanceOf(RunResult.Completed.class, runOnce(service, attempt -> DONE));
    }
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void hooksThatThrowEndNoBegin(Throwable thrown) {
    try (ScriptedService service = withHooksThatThrow(thrown)) {
      AtomicInteger tries = new AtomicInteger();
      var working = service.onBegin;
      service.onBegin =
          (request, answer) -> {
            switch (tries.incrementAndGet()) {
              case 1 -> answer.onError(Status.UNAVAILABLE.asRuntimeException());
              case 2 -> answer.onError(refusal(Status.Code.UNAUTHENTICATED, "CREDENTIALS_INVALID"));
              default -> working.accept(request, answer);
            }
          };
      assertInstanceOf(RunResult.Completed.class, runOnce(service, attempt -> DONE));
    }
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void hookThatThrowsDoesNotHideTheErrorItWasToldOf(Throwable thrown) throws Exception {
    try (ScriptedService service = withHooksThatThrow(thrown)) {
      service.onComplete =
          (request, answer) -> answer.onError(refusal(Status.Code.ABORTED, "LEASE_LOST"));
      var error =
          assertThrows(
              idempotency.client.LeaseLostException.class, () -> runOnce(service, a -> DONE));
      assertSame(DONE, error.work());
      assertSame(DONE, next(service.notRecorded).work());
    }
  }

  @ParameterizedTest
  @MethodSource("throwables")
  void executorThatThrowsReleases(Throwable thrown) throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      AsyncWork never =
          attempt -> {
            throw new AssertionError("the work must not run");
          };
      CompletableFuture<RunResult> future =
          run(service, RunOptions.defaults())
              .async(
                  never,
                  task -> {
                    throw sneaky(thrown);
                  });
      CompletionException ended = assertThrows(CompletionException.class, future::join);
      var error = assertInstanceOf(UnavailableException.class, ended.getCause());
      assertNull(error.work());
      assertSame(thrown, error.getCause());
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
      assertTrue(service.completes.isEmpty());
    }
  }
}
