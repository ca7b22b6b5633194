package idempotency.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

/** Backoff, clock, lease and text. */
final class PartsTest {
  private static long ms(long millis) {
    return Duration.ofMillis(millis).toNanos();
  }

  private static void assertBetween(long low, long high, long value) {
    assertTrue(low <= value && value <= high, low + " <= " + value + " <= " + high);
  }

  @RepeatedTest(20)
  void backoffDoublesUpToItsBound() {
    Backoff backoff = new Backoff();
    for (long wait : new long[] {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
      assertBetween(ms(wait) / 2, ms(wait), backoff.next(null));
    }
    backoff.reset();
    assertBetween(ms(25), ms(50), backoff.next(null));
  }

  @RepeatedTest(20)
  void backoffTakesWhatTheServiceAsksFor() {
    Backoff backoff = new Backoff(Duration.ofSeconds(1));
    assertBetween(ms(3000), ms(3600), backoff.next(Duration.ofSeconds(3)));
    assertEquals(0, backoff.next(Duration.ZERO));
    // What was asked does not count as one of its own.
    assertBetween(ms(25), ms(50), backoff.next(null));
    assertBetween(ms(60_000), ms(72_000), backoff.next(Duration.ofDays(400)));
    assertBetween(ms(50), ms(100), backoff.next(Duration.ofSeconds(-1)));
  }

  @Test
  void clockGoesByTheOneThatHasMovedFurther() {
    AtomicLong nanos = new AtomicLong(1000);
    AtomicLong millis = new AtomicLong(1_700_000_000_000L);
    LeaseClock clock = new LeaseClock(nanos::get, millis::get);
    LeaseClock.Reading then = clock.now();
    assertEquals(0, clock.since(then));
    nanos.addAndGet(ms(500));
    millis.addAndGet(500);
    assertEquals(ms(500), clock.since(then));
    // Suspended for a minute: only the wall clock has moved.
    millis.addAndGet(60_000);
    assertEquals(ms(60_500), clock.since(then));
    // Set back by an hour: the monotonic one counts.
    millis.addAndGet(-3_600_000);
    assertEquals(ms(500), clock.since(then));
  }

  @Test
  void clockStandsStillRatherThanGoBack() {
    AtomicLong time = new AtomicLong();
    LeaseClock clock = new LeaseClock(time::get, time::get);
    LeaseClock.Reading then = clock.now();
    time.set(-5);
    assertEquals(0, clock.since(then));
  }

  @Test
  void leaseIsCountedFromWhenItsCallWasSent() {
    AtomicLong nanos = new AtomicLong();
    LeaseClock clock = new LeaseClock(nanos::get, () -> 0);
    Lease lease = new Lease(clock.now(), ms(1000));
    nanos.set(ms(400));
    assertEquals(ms(600), lease.left(clock));
    nanos.set(ms(1000));
    assertEquals(0, lease.left(clock));
    nanos.set(ms(5000));
    assertEquals(0, lease.left(clock));
  }

  @Test
  void leaseIsRenewedAtAThirdButNeverInABusyLoop() {
    LeaseClock.Reading now = new LeaseClock.Reading(0, 0);
    assertEquals(ms(20_000), new Lease(now, ms(60_000)).third());
    assertEquals(ms(20), new Lease(now, 0).third());
  }

  @Test
  void spansReachAYearAtMost() {
    assertEquals(
        Duration.ofDays(365).toNanos(), Moment.nanosOf(Duration.ofSeconds(Long.MAX_VALUE)));
    assertEquals(0, Moment.nanosOf(Duration.ofSeconds(Long.MIN_VALUE)));
    assertTrue(Moment.in(Duration.ofSeconds(-1)).isOver());
    assertFalse(Moment.in(Duration.ofSeconds(Long.MAX_VALUE)).isOver());
  }

  @Test
  void textIsCutBetweenCharacters() {
    assertEquals("é".repeat(32), Text.cut("é".repeat(40), 64));
    assertEquals("ab", Text.cut("ab💸", 5));
    assertEquals("ab💸", Text.cut("ab💸", 6));
    assertEquals("a€", Text.cut("a€b", 4));
    assertEquals("", Text.cut("", 64));
    assertEquals("a?b", Text.cut("a\uD83Db", 64));
  }

  @Test
  void halfCharactersAreSentAsSuch() {
    assertEquals("a\uFFFDb", Text.sendable("a\uDCB8b"));
    assertEquals("💸", Text.sendable("💸"));
  }
}
