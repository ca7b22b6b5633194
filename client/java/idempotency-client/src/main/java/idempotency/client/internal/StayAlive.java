package idempotency.client.internal;

import org.jspecify.annotations.Nullable;

/**
 * Keeps the JVM from ending while something is pending: all other threads of the client are
 * daemons, and a {@code main} that returns must not cost an outcome. Thread-safe.
 */
final class StayAlive {
  // So that calls that come one after the other share a thread.
  private static final long LINGER_MILLIS = 100;

  private int pending;
  private boolean isStopped;
  private @Nullable Thread thread;

  /** Something is pending, until {@link #leave}. */
  synchronized void enter() {
    pending++;
    if (thread != null || isStopped) return;
    Thread started = new Thread(this::stay, "idempotency-client-pending");
    // A thread inherits that from the one that makes it.
    started.setDaemon(false);
    try {
      started.start();
      thread = started;
    } catch (OutOfMemoryError noThread) {
      // Then the JVM may end early, which is better than a call that fails.
    }
  }

  synchronized void leave() {
    pending--;
    if (pending == 0) notifyAll();
  }

  /** Nothing counts any more. */
  synchronized void stop() {
    isStopped = true;
    notifyAll();
  }

  /** Null: the JVM may end. */
  synchronized @Nullable Thread thread() {
    return thread;
  }

  private synchronized void stay() {
    try {
      while (!isStopped) {
        if (pending > 0) {
          wait();
          continue;
        }
        wait(LINGER_MILLIS);
        if (pending == 0) break;
      }
    } catch (InterruptedException nobodyShould) {
      Thread.currentThread().interrupt();
    } finally {
      thread = null;
    }
  }
}
