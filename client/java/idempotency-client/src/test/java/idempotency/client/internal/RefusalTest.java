package idempotency.client.internal;

import static idempotency.client.internal.RunTest.DONE;
import static idempotency.client.internal.RunTest.NEVER;
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

import idempotency.client.ChannelOptions;
import idempotency.client.ClientOptions;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.OnUnavailable;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.UnauthenticatedException;
import idempotency.client.UnavailableException;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What becomes of refusals, against a service in this process. */
final class RefusalTest {
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

  private static RunOptions unprotected(Duration startTimeout) {
    return RunOptions.builder()
        .onUnavailable(OnUnavailable.RUN_UNPROTECTED)
        .startTimeout(startTimeout)
        .build();
  }

  @Test
  void recordIsRefusedCredentialsOnceOnly() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      service.onComplete =
          (request, answer) ->
              answer.onError(refusal(Status.Code.UNAUTHENTICATED, "CREDENTIALS_INVALID"));
      var error =
          assertThrows(UnauthenticatedException.class, () -> runOnce(service, attempt -> DONE));
      assertSame(DONE, error.work());
      assertEquals(2, service.completes.size());
      assertSame(DONE, next(service.notRecorded).work());
    }
  }

  @Test
  void tryThatTheBudgetCutOffDoesNotHideWhatWasSaidBefore() throws Exception {
    try (ScriptedService service = new ScriptedService()) {
      AtomicInteger begins = new AtomicInteger();
      service.onBegin =
          (request, answer) -> {
            if (begins.incrementAndGet() == 1) answer.onError(Status.UNAVAILABLE.asException());
          };
      RunOptions options = RunOptions.builder().startTimeout(Duration.ofSeconds(3)).build();
      var error =
          assertThrows(UnavailableException.class, () -> run(service, options).blocking(NEVER));
      assertNull(error.work());
      assertEquals("NOT_BEGUN", next(service.fails).getFailure().getCode());
    }
  }

  @Test
  void negativePushbackEndsItBeforeTheTimeIsOverSoNothingRunsUnprotected() {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            StatusRuntimeException refused = refusal(Status.Code.UNAVAILABLE, "OVERLOADED");
            refused.getTrailers().put(PUSHBACK, "-1");
            answer.onError(refused);
          };
      assertThrows(
          UnavailableException.class,
          () -> run(service, unprotected(Duration.ofMinutes(1))).blocking(NEVER));
      assertEquals(1, service.begins.size());
      assertEquals(0, service.core().unprotectedRuns());
    }
  }

  @Test
  @Timeout(45) // Less than the start timeout, which is not waited for.
  void pauseBeyondTheStartTimeoutEndsUnprotectedAtOnce() {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            StatusRuntimeException refused = refusal(Status.Code.UNAVAILABLE, "OVERLOADED");
            refused.getTrailers().put(PUSHBACK, "60000");
            answer.onError(refused);
          };
      RunResult result =
          run(service, unprotected(Duration.ofSeconds(59))).blocking(attempt -> DONE);
      assertEquals(1, service.begins.size());
      var unprotected = assertInstanceOf(RunResult.Unprotected.class, result);
      assertEquals("OVERLOADED", unprotected.error().reason());
      assertSame(DONE.outcome(), unprotected.outcome());
      assertEquals(1, service.core().unprotectedRuns());
      assertTrue(service.completes.isEmpty());
    }
  }

  @Test
  void nothingRunsUnprotectedWithoutATry() throws Exception {
    // Takes connections and says nothing: the channel is connecting all the time.
    try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      String target = "127.0.0.1:" + silent.getLocalPort();
      Core core =
          new Core(
              ChannelOptions.of(target, InsecureChannelCredentials.create()),
              ClientOptions.defaults());
      try {
        Run run =
            new Run(
                core,
                RunTest.KEY,
                RunTest.REQUEST,
                OnLeaseExpiry.TAKE_OVER,
                unprotected(Duration.ofMillis(500)));
        assertThrows(UnavailableException.class, () -> run.blocking(NEVER));
        assertEquals(0, core.unprotectedRuns());
      } finally {
        core.close();
      }
    }
  }

  @Test
  void unprotectedWorkHasNoLeaseAndNoToken() {
    try (ScriptedService service = new ScriptedService()) {
      service.onBegin =
          (request, answer) -> {
            StatusRuntimeException refused = refusal(Status.Code.UNAVAILABLE, "DRAINING");
            refused.getTrailers().put(PUSHBACK, "60000");
            answer.onError(refused);
          };
      run(service, unprotected(Duration.ofSeconds(59)))
          .blocking(
              attempt -> {
                assertTrue(attempt.unprotected());
                assertEquals(0, attempt.attemptNumber());
                assertEquals(0, attempt.fencingToken());
                assertEquals("", attempt.downstreamKey());
                assertTrue(attempt.leaseRemaining().compareTo(Duration.ofDays(3650)) > 0);
                assertTrue(attempt.leaseRemaining().toNanos() > 0);
                assertEquals(1, service.core().unprotectedRuns());
                return DONE;
              });
    }
  }
}
