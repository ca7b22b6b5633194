package idempotency.client.internal;

import java.time.Duration;

/** An instant on the monotonic clock, for budgets. */
public record Moment(long nanos) {
  private static final Duration YEAR = Duration.ofDays(365);

  /** That long from now; what reaches further than a year counts as a year, below 0 as 0. */
  static Moment in(Duration span) {
    return new Moment(System.nanoTime() + nanosOf(span));
  }

  static Moment in(long nanos) {
    return new Moment(System.nanoTime() + nanos);
  }

  /** At most a year; what is negative counts as 0. */
  public static long nanosOf(Duration span) {
    if (span.isNegative()) return 0;
    return span.compareTo(YEAR) > 0 ? YEAR.toNanos() : span.toNanos();
  }

  Moment plus(Duration span) {
    return new Moment(nanos + nanosOf(span));
  }

  /** Nanoseconds; never negative. */
  long left() {
    return Math.max(0, nanos - System.nanoTime());
  }

  boolean isOver() {
    return left() == 0;
  }
}
