package idempotency.client.internal;

import idempotency.client.IdempotencyException;
import idempotency.client.RunResult;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** What a run ends with: exactly one of the three. */
record Ending(
    @Nullable RunResult result,
    IdempotencyException.@Nullable Builder error,
    @Nullable Error crash) {
  static Ending of(RunResult result) {
    return new Ending(result, null, null);
  }

  static Ending of(IdempotencyException.Builder error) {
    return new Ending(null, error, null);
  }

  /** The Error that the work threw goes on; how its record failed, if it did, goes with it. */
  Ending crashing(Error crash) {
    if (error != null) crash.addSuppressed(error.build());
    return new Ending(null, null, crash);
  }

  RunResult orThrow() {
    if (crash != null) throw crash;
    if (error != null) throw error.build();
    return Objects.requireNonNull(result);
  }
}
