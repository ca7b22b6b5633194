package idempotency.client.internal;

import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** One daemon thread that runs small tasks later. Tasks must not block. Thread-safe. */
final class Timers {
  private static final System.Logger LOG = System.getLogger("idempotency.client");

  private final ScheduledThreadPoolExecutor executor;

  Timers() {
    executor =
        new ScheduledThreadPoolExecutor(
            1,
            task -> {
              Thread thread = new Thread(task, "idempotency-client");
              thread.setDaemon(true);
              return thread;
            });
    executor.setRemoveOnCancelPolicy(true);
    executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
  }

  /** Runs the task in that time; never, and answers null, once this is stopped. */
  @Nullable Future<?> in(long nanos, Runnable task) {
    try {
      return executor.schedule(() -> run(task), nanos, TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException stopped) {
      return null;
    }
  }

  static void cancel(@Nullable Future<?> timer) {
    if (timer != null) timer.cancel(false);
  }

  void stop() {
    executor.shutdown();
  }

  private static void run(Runnable task) {
    try {
      task.run();
    } catch (Throwable bug) {
      LOG.log(System.Logger.Level.ERROR, "a task of the idempotency client failed", bug);
    }
  }
}
