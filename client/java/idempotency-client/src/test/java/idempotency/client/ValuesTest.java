package idempotency.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** The API's values: immutable, and each error its own class. */
final class ValuesTest {
  @Test
  void outcomeDoesNotFollowItsMaker() {
    Outcome.Builder builder = Outcome.status(200).header("A", "1");
    Outcome outcome = builder.build();
    builder.header("B", "2");
    assertEquals(List.of(Header.of("A", "1")), outcome.headers());
    assertThrows(
        UnsupportedOperationException.class, () -> outcome.headers().add(Header.of("C", "3")));
  }

  @Test
  void optionsDoNotFollowTheirMaker() {
    RunOptions.Builder builder = RunOptions.builder().label("a", "1");
    RunOptions options = builder.build();
    builder.label("b", "2");
    assertEquals(1, options.labels().size());
  }

  @Test
  void attemptDoesNotFollowItsMaker() {
    Attempt.Builder builder = Attempt.builder("").attemptNumber(1);
    Attempt attempt = builder.build();
    builder.attemptNumber(2);
    assertEquals(1, attempt.attemptNumber());
  }

  @Test
  void workResultIsOneOfTwo() {
    assertThrows(IllegalArgumentException.class, () -> new WorkResult(null, null));
    Failure failure = new Failure(FailureDisposition.FINAL, "C", "m", null);
    Outcome outcome = Outcome.status(200).build();
    assertThrows(IllegalArgumentException.class, () -> new WorkResult(outcome, failure));
  }

  @Test
  void everyKindHasItsException() {
    List<Class<?>> classes = new ArrayList<>();
    for (ErrorKind kind : ErrorKind.values()) {
      IdempotencyException error = IdempotencyException.builder(kind).build();
      assertEquals(kind, error.kind());
      assertEquals(kind.title() + "Exception", error.getClass().getSimpleName());
      classes.add(error.getClass());
    }
    assertEquals(ErrorKind.values().length, classes.stream().distinct().count());
  }

  @Test
  void whatTheWorkThrewIsTheCause() {
    Exception thrown = new Exception("thrown");
    IdempotencyException error =
        IdempotencyException.builder(ErrorKind.LEASE_LOST)
            .cause(new Exception("the call"))
            .thrown(thrown)
            .build();
    assertSame(thrown, error.thrown());
    assertSame(thrown, error.getCause());
  }

  @Test
  void firstReasonToStopStays() {
    StopSignal stop = new StopSignal();
    assertEquals(StopReason.NONE, stop.reason());
    assertTrue(stop.request(StopReason.DEADLINE));
    assertFalse(stop.request(StopReason.CANCELLED));
    assertEquals(StopReason.DEADLINE, stop.reason());
  }

  @Test
  void stopCallsBackOnceAlsoLater() {
    StopSignal stop = new StopSignal();
    AtomicInteger calls = new AtomicInteger();
    stop.onRequest(calls::incrementAndGet);
    stop.onRequest(
        () -> {
          throw new IllegalStateException();
        });
    stop.request(StopReason.CANCELLED);
    stop.onRequest(calls::incrementAndGet);
    assertEquals(2, calls.get());
  }

  @Test
  void stopIsAwaitedForAWhile() throws InterruptedException {
    StopSignal stop = new StopSignal();
    assertFalse(stop.await(Duration.ofMillis(1)));
    stop.request(StopReason.CANCELLED);
    assertTrue(stop.await(Duration.ZERO));
    assertEquals(StopReason.CANCELLED, stop.await());
  }

  @Test
  void bodyThatIsSaidToBeOmittedIsNotAnswered() {
    Outcome outcome =
        new Outcome(
            201,
            List.of(),
            "text/plain",
            ByteString.copyFromUtf8("body"),
            "",
            true,
            null,
            ByteString.EMPTY);
    HttpAnswer answer =
        HttpAnswer.of(new RunResult.Completed(outcome, false, "r", 1, Instant.EPOCH));
    assertEquals(ByteString.EMPTY, answer.body());
    assertTrue(answer.headers().contains(Header.of("Idempotent-Body-Omitted", "true")));
  }

  @Test
  void failuresWordsAreCutWhenItIsMade() {
    Failure failure = new Failure(FailureDisposition.FINAL, "c".repeat(65), "m".repeat(1025), null);
    assertEquals("c".repeat(64), failure.code());
    assertEquals("m".repeat(1024), failure.message());
  }

  @Test
  void clientOptionsOutOfBoundsAreRefused() {
    ClientOptions.Builder options = ClientOptions.builder();
    assertThrows(IllegalArgumentException.class, () -> options.rpcTimeout(Duration.ZERO));
    Duration negative = Duration.ofMillis(-1);
    assertThrows(IllegalArgumentException.class, () -> options.recordTimeout(negative));
    assertThrows(IllegalArgumentException.class, () -> options.shutdownTimeout(negative));
    assertThrows(IllegalArgumentException.class, () -> options.maxBackgroundRecords(-1));
  }
}
