package idempotency.client.internal;

import static idempotency.client.internal.ScriptedService.answer;
import static idempotency.client.internal.ScriptedService.next;
import static idempotency.client.internal.ScriptedService.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotency.client.ClientOptions;
import idempotency.client.IdempotencyException;
import idempotency.client.StopReason;
import idempotency.v1.RenewRequest;
import idempotency.v1.RenewResponse;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The lease moves only when the test moves the clock. */
final class LeaseKeeperTest {
  private static final Duration LEASE = Duration.ofSeconds(30);
  private static final RenewRequest RENEWAL =
      RenewRequest.newBuilder().setAttemptId("attempt").build();

  private final AtomicLong nanos = new AtomicLong();
  private final LeaseClock clock = new LeaseClock(nanos::get, () -> 0);
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

  private final AtomicInteger told = new AtomicInteger();
  private final AtomicInteger refreshes = new AtomicInteger();
  private final ScriptedService service =
      new ScriptedService(ClientOptions.builder(), clock) {
        @Override
        public void onRetry(String rpc, IdempotencyException error) {
          told.incrementAndGet();
        }

        @Override
        public void refreshCredentials() {
          refreshes.incrementAndGet();
        }
      };
  private final LeaseKeeper keeper =
      new LeaseKeeper(
          service.core(),
          Context.ROOT,
          RENEWAL,
          new Lease(clock.now(), LEASE.toNanos()),
          Duration.ofMinutes(15),
          () -> {});

  @AfterEach
  void close() {
    keeper.end();
    service.close();
  }

  private void pass(Duration span) {
    nanos.addAndGet(span.toNanos());
  }

  // The pause before a repeat is counted from when its failure was seen: time goes on until then.
  private void nextRepeat() throws InterruptedException {
    while (service.renewals.poll(10, TimeUnit.MILLISECONDS) == null) pass(Duration.ofMillis(100));
  }

  private void renewWith(Duration lease) {
    service.onRenew =
        (request, answer) ->
            answer(
                answer,
                RenewResponse.newBuilder().setLeaseRemaining(ToProto.duration(lease)).build());
  }

  private void refuseWith(Status.Code code, String reason) {
    service.onRenew = (request, answer) -> answer.onError(refusal(code, reason));
  }

  @Test
  void renewsAThirdAfterTheLastAcceptedCallWasSent() throws Exception {
    renewWith(Duration.ofSeconds(60));
    keeper.start();
    pass(Duration.ofSeconds(10));
    assertEquals(RENEWAL, next(service.renewals));
    while (keeper.remaining().compareTo(LEASE) < 0) Thread.onSpinWait();
    assertEquals(Duration.ofSeconds(60), keeper.remaining());
    pass(Duration.ofSeconds(20));
    assertEquals(RENEWAL, next(service.renewals));
    assertEquals(StopReason.NONE, keeper.stop().reason());
  }

  @Test
  void goesOnRenewingAfterTheLocalEnd() throws Exception {
    refuseWith(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE");
    keeper.start();
    pass(LEASE);
    assertEquals(StopReason.LEASE_LOST, keeper.stop().await());
    assertEquals(Duration.ZERO, keeper.remaining());
    nextRepeat();
    nextRepeat();
  }

  @Test
  void renewalThatIsRefusedForGoodStopsTheWork() throws Exception {
    refuseWith(Status.Code.FAILED_PRECONDITION, "ALREADY_FINISHED");
    keeper.start();
    pass(LEASE.dividedBy(3));
    assertEquals(StopReason.LEASE_LOST, keeper.stop().await());
  }

  @Test
  void withoutMoreLeaseTheOneThatIsHeldRunsToItsEnd() throws Exception {
    refuseWith(Status.Code.FAILED_PRECONDITION, "NEEDS_RESOLUTION");
    keeper.start();
    pass(LEASE.dividedBy(3));
    next(service.renewals);
    assertEquals(StopReason.NONE, keeper.stop().reason());
    pass(LEASE);
    assertEquals(StopReason.LEASE_LOST, keeper.stop().await());
    assertTrue(service.renewals.isEmpty());
  }

  @Test
  void renewalThatMustNotBeRepeatedIsDueAThirdLater() throws Exception {
    service.onRenew =
        (request, answer) -> {
          StatusRuntimeException refused = refusal(Status.Code.UNAVAILABLE, "OVERLOADED");
          refused.getTrailers().put(PUSHBACK, "-1");
          answer.onError(refused);
        };
    keeper.start();
    pass(LEASE.dividedBy(3));
    next(service.renewals);
    while (told.get() == 0) Thread.onSpinWait();
    nextRepeat();
    Duration atLeast = LEASE.dividedBy(3).multipliedBy(2);
    assertTrue(nanos.get() >= atLeast.toNanos(), "repeated too early");
    assertEquals(StopReason.NONE, keeper.stop().reason());
  }

  @Test
  void credentialsAreRefreshedOnce() throws Exception {
    refuseWith(Status.Code.UNAUTHENTICATED, "CREDENTIALS_INVALID");
    keeper.start();
    pass(LEASE.dividedBy(3));
    next(service.renewals);
    next(service.renewals);
    nextRepeat();
    assertEquals(1, refreshes.get());
  }

  @Test
  void renewsNoMoreAfterMaxDuration() throws Exception {
    StreamObserver<?>[] unanswered = new StreamObserver<?>[1];
    service.onRenew = (request, answer) -> unanswered[0] = answer;
    keeper.start();
    pass(Duration.ofMinutes(15));
    assertEquals(StopReason.MAX_DURATION, keeper.stop().await());
    assertTrue(service.renewals.isEmpty());
  }

  @Test
  void asksNobodyToStopOnceTheWorkHasEnded() {
    keeper.start();
    keeper.end();
    keeper.stop(StopReason.CANCELLED);
    assertEquals(StopReason.NONE, keeper.stop().reason());
  }
}
