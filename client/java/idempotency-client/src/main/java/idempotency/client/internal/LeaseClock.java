package idempotency.client.internal;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The clock that leases are measured on.
 *
 * <p>{@link System#nanoTime} stands still while a machine is suspended (it is Linux's
 * CLOCK_MONOTONIC), and a lease does not. Java has no clock that counts that time, so the wall
 * clock is asked as well, and the one that has moved further counts. A wall clock that is set
 * forward ends a lease here early, which stops the work without need; one that is set back is
 * outvoted.
 *
 * <p>Thread-safe.
 */
final class LeaseClock {
  /** What both clocks said at one instant. */
  record Reading(long nanos, long millis) {}

  static final LeaseClock SYSTEM = new LeaseClock(System::nanoTime, System::currentTimeMillis);

  private final LongSupplier nanos;
  private final LongSupplier millis;

  LeaseClock(LongSupplier nanos, LongSupplier millis) {
    this.nanos = nanos;
    this.millis = millis;
  }

  Reading now() {
    return new Reading(nanos.getAsLong(), millis.getAsLong());
  }

  /** Nanoseconds, never negative. */
  long since(Reading then) {
    Reading now = now();
    long byWallClock = TimeUnit.MILLISECONDS.toNanos(now.millis - then.millis);
    return Math.max(0, Math.max(now.nanos - then.nanos, byWallClock));
  }
}
