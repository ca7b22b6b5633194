package idempotency.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Asks the work to stop, once. Begin nothing new from then on; what has been sent to a partner has
 * been sent, and is unknown unless the partner says otherwise.
 *
 * <p>Thread-safe. Plain enough to be made by a test of the work itself.
 */
public final class StopSignal {
  private final CompletableFuture<StopReason> requested = new CompletableFuture<>();

  /** A signal that nobody has given yet. */
  public StopSignal() {}

  /** Whether the work is asked to stop. */
  public boolean isRequested() {
    return requested.isDone();
  }

  /** Why; {@link StopReason#NONE} before that. */
  public StopReason reason() {
    return requested.getNow(StopReason.NONE);
  }

  /**
   * Calls back once, at once if the work is already asked to stop.
   *
   * @param callback runs on the thread that asks, one of the client's own: it must not block. What
   *     it throws is dropped
   */
  public void onRequest(Runnable callback) {
    // The stage that this makes takes what the callback throws.
    var unused = requested.thenRun(callback);
  }

  /** Waits until the work is asked to stop. */
  public StopReason await() throws InterruptedException {
    try {
      return requested.get();
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /**
   * Waits until the work is asked to stop, for at most that long.
   *
   * @return whether it is
   */
  public boolean await(Duration timeout) throws InterruptedException {
    try {
      requested.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
      return true;
    } catch (TimeoutException tooEarly) {
      return false;
    } catch (ExecutionException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /**
   * Asks to stop. For the client, and for tests.
   *
   * @param reason not {@link StopReason#NONE}
   * @return false if it was asked before: the first reason stays
   */
  public boolean request(StopReason reason) {
    if (reason == StopReason.NONE) throw new IllegalArgumentException("a reason must be given");
    return requested.complete(reason);
  }
}
