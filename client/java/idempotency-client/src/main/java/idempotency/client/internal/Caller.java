package idempotency.client.internal;

import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.StopReason;
import io.grpc.Context;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/** The one who waits for a call: when it wants no answer any more. Thread-safe. */
final class Caller {
  private final CompletableFuture<StopReason> gone = new CompletableFuture<>();
  private final @Nullable Future<?> timer;
  private final Context context = Context.current();
  private final Context.CancellationListener onContextEnd = this::leaveWith;

  /** With that deadline, and that of the current gRPC context. */
  Caller(Timers timers, @Nullable Duration deadline) {
    if (deadline == null) {
      timer = null;
    } else if (deadline.isNegative() || deadline.isZero()) {
      timer = null;
      leave(StopReason.DEADLINE);
    } else {
      timer = timers.in(Moment.nanosOf(deadline), () -> leave(StopReason.DEADLINE));
    }
    if (context.isCancelled()) leaveWith(context);
    context.addListener(onContextEnd, Runnable::run);
  }

  /** Calls go out in this: the caller's values, such as its trace, without its end. */
  Context detachedContext() {
    return context.fork();
  }

  /** Ends with the reason, once. */
  CompletableFuture<StopReason> gone() {
    return gone;
  }

  boolean isGone() {
    return gone.isDone();
  }

  void leave(StopReason reason) {
    gone.complete(reason);
  }

  /** Nobody looks any more. */
  void close() {
    Timers.cancel(timer);
    context.removeListener(onContextEnd);
  }

  /** REQUIRES: the caller is gone. */
  IdempotencyException.Builder error() {
    return switch (gone.getNow(StopReason.CANCELLED)) {
      case DEADLINE -> Errors.of(ErrorKind.DEADLINE_EXCEEDED, "the caller's deadline passed");
      case CLOSED -> Errors.closed();
      default -> Errors.of(ErrorKind.CANCELLED, "the caller left");
    };
  }

  private void leaveWith(Context ended) {
    boolean isLate = ended.cancellationCause() instanceof TimeoutException;
    leave(isLate ? StopReason.DEADLINE : StopReason.CANCELLED);
  }
}
