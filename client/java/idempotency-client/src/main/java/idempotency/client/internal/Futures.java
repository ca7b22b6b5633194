package idempotency.client.internal;

import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** What follows the end of a future. */
final class Futures {
  private Futures() {}

  /**
   * Calls {@code then} with the value, at once if it is there already. What it throws, which is a
   * bug, is logged: a future would keep it to itself.
   */
  @SuppressWarnings("FutureReturnValueIgnored") // Its only failure is logged.
  static <T> void follow(CompletableFuture<T> future, Consumer<? super T> then) {
    future
        .thenAccept(then)
        .whenComplete(
            (value, bug) -> {
              if (bug == null) return;
              Core.LOG.log(
                  System.Logger.Level.ERROR,
                  "a callback of the idempotency client failed: {0}",
                  nameOf(bug));
            });
  }

  // Not its text, which may be the application's.
  private static String nameOf(Throwable bug) {
    Throwable cause = bug.getCause();
    return (cause == null ? bug : cause).getClass().getName();
  }
}
