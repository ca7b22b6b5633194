package idempotency.client.internal;

import idempotency.client.Attempt;
import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.RunResult;
import java.time.Duration;
import java.util.Set;

/** Work without the service, for the client and the fake alike. */
public final class UnprotectedRun {
  private static final Set<String> WITHOUT_EFFECT =
      Set.of("STORE_UNAVAILABLE", "OVERLOADED", "DRAINING");

  /** What is left of a lease that there is none of: 292 years, so that its nanoseconds fit. */
  static final Duration ENDLESS = Duration.ofNanos(Long.MAX_VALUE);

  private UnprotectedRun() {}

  /** Whether a service that is UNAVAILABLE for that reason has done nothing. */
  static boolean isWithoutEffect(String reason) {
    return WITHOUT_EFFECT.contains(reason);
  }

  /** Whether this is how a service that is away looks: nothing but that lets work run so. */
  public static boolean mayFollow(IdempotencyException error) {
    return error.kind() == ErrorKind.UNAVAILABLE
        && (error.reason().isEmpty() || isWithoutEffect(error.reason()));
  }

  /** What the work gets: no number, no token, no downstream key, no lease that ends. */
  public static Attempt.Builder attempt() {
    return Attempt.builder("")
        .attemptNumber(0)
        .fencingToken(0)
        .unprotected(true)
        .leaseRemaining(() -> ENDLESS);
  }

  /** The result, which nobody has recorded. */
  public static RunResult result(WorkEnd end, IdempotencyException error) {
    return new RunResult.Unprotected(end.work(), end.thrown(), error);
  }
}
