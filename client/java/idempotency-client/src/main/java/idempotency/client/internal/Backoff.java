package idempotency.client.internal;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/** How long to wait before a call is repeated. Not thread-safe. */
final class Backoff {
  // Guessed: fast enough for a replica that restarts, slow enough for a thousand callers.
  private static final Duration FIRST = Duration.ofMillis(50);
  private static final Duration LONGEST = Duration.ofSeconds(5);
  private static final Duration LONGEST_ASKED = Duration.ofMinutes(1);

  private final long longest;
  private long next = FIRST.toNanos();

  Backoff() {
    this(LONGEST);
  }

  Backoff(Duration longest) {
    this.longest = longest.toNanos();
  }

  /**
   * The next wait, in nanoseconds: doubles from 50 ms, drawn from its upper half.
   *
   * @param asked what the service asked for, which counts instead (a minute at most), with up to a
   *     fifth on top, so that those it told the same do not come back together
   */
  long next(@Nullable Duration asked) {
    if (asked != null && !asked.isNegative()) {
      long wait = (asked.compareTo(LONGEST_ASKED) > 0 ? LONGEST_ASKED : asked).toNanos();
      return between(wait, wait + wait / 5);
    }
    long wait = next;
    next = Math.min(longest, 2 * next);
    return between(wait / 2, wait);
  }

  void reset() {
    next = FIRST.toNanos();
  }

  private static long between(long low, long high) {
    return ThreadLocalRandom.current().nextLong(low, high + 1);
  }
}
