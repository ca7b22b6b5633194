package idempotency.client.internal;

import idempotency.client.internal.Sending.Reply;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/**
 * A call that may be repeated (Begin, Renew, Lookup): until it is answered, refused for good, the
 * caller is gone, or the time is over. One try at a time, so that the fields of a try need no lock.
 */
final class Repeat<A> {
  // What a try is given at least where it has to be certain what came of it: a try that is cut off
  // may have had an effect.
  private static final long CERTAIN_TRY = 1_000_000_000;

  private final Core core;
  private final Caller caller;
  private final String rpc;
  private final Moment giveUpAt;
  private final long timeoutNanos;
  private final LongFunction<Sending<A>> call;
  private final @Nullable ManagedChannel watched;
  private final CompletableFuture<Reply<A>> end = new CompletableFuture<>();
  private final Backoff backoff = new Backoff();
  private boolean hasRefreshed;
  private boolean isCutShort;
  private boolean mayHaveEffect;
  private boolean isWithoutEffect = true;
  private boolean isOutOfTime;
  private volatile @Nullable Sending<A> current;
  private @Nullable CallFailure last;

  /**
   * Does nothing yet.
   *
   * @param giveUpAt no try begins after that
   * @param timeoutNanos of a single try
   * @param call makes one try, within that many nanoseconds
   * @param watched if given: each try waits until it is known whether this channel has a
   *     connection, so that {@link #isWithoutEffect} can be told
   */
  Repeat(
      Core core,
      Caller caller,
      String rpc,
      Moment giveUpAt,
      long timeoutNanos,
      LongFunction<Sending<A>> call,
      @Nullable ManagedChannel watched) {
    this.core = core;
    this.caller = caller;
    this.rpc = rpc;
    this.giveUpAt = giveUpAt;
    this.timeoutNanos = timeoutNanos;
    this.call = call;
    this.watched = watched;
  }

  /** Once. Ends with the last reply. */
  CompletableFuture<Reply<A>> run() {
    Futures.follow(caller.gone(), reason -> cancelCurrent());
    step(this::beginTry);
    return end;
  }

  /** Whether a failed try may have changed the record. */
  boolean mayHaveEffect() {
    return mayHaveEffect;
  }

  /**
   * Whether there were tries, and all were certainly without effect, by the rule for running
   * unprotected.
   */
  boolean isWithoutEffect() {
    return watched != null && last != null && isWithoutEffect;
  }

  /** Whether it ended because no further try could begin before the time was over. */
  boolean isOutOfTime() {
    return isOutOfTime;
  }

  private void beginTry() {
    if (watched == null) {
      send(false);
      return;
    }
    ConnectivityState state = watched.getState(true);
    switch (state) {
      case READY, SHUTDOWN -> send(false);
      case TRANSIENT_FAILURE -> send(true);
      default -> {
        if (caller.isGone() || core.isClosed() || giveUpAt.isOver()) {
          isOutOfTime = giveUpAt.isOver();
          finish(last != null ? last : CallFailure.notConnected());
          return;
        }
        CompletableFuture<Void> changed = new CompletableFuture<>();
        watched.notifyWhenStateChanged(state, () -> changed.complete(null));
        pause(giveUpAt.left(), changed, this::beginTry);
      }
    }
  }

  private void send(boolean wasDown) {
    long left = watched == null ? giveUpAt.left() : Math.max(giveUpAt.left(), CERTAIN_TRY);
    isCutShort = left < timeoutNanos;
    Sending<A> sending = call.apply(Math.min(timeoutNanos, left));
    current = sending;
    if (caller.isGone()) sending.cancel();
    Futures.follow(sending.reply(), reply -> step(() -> onReply(sending, reply, wasDown)));
  }

  private void cancelCurrent() {
    Sending<A> sending = current;
    if (sending != null) sending.cancel();
  }

  private void onReply(Sending<A> sending, Reply<A> reply, boolean wasDown) {
    CallFailure failure = reply.failure();
    if (failure == null) {
      end.complete(reply);
      return;
    }
    // A try that the budget cut off says less than the one before it.
    CallFailure told = failure;
    if (isCutShort && last != null && failure.code() == Status.Code.DEADLINE_EXCEEDED) told = last;
    last = told;
    if (failure.mayHaveEffect() && sending.wasSent()) mayHaveEffect = true;
    boolean wasNeverSent =
        wasDown
            && failure.isUnreached()
            && !sending.wasSent()
            && watched != null
            && Channels.isDown(watched);
    if (!wasNeverSent && !failure.saysNothingWasDone()) isWithoutEffect = false;
    boolean refresh =
        failure.code() == Status.Code.UNAUTHENTICATED && !failure.mustNotRetry() && !hasRefreshed;
    boolean isHopeless = !refresh && !failure.isWorthRepeating();
    if (caller.isGone() || core.isClosed() || isHopeless) {
      finish(told);
      return;
    }
    if (refresh) {
      hasRefreshed = true;
      core.tellRefresh();
    }
    long wait = refresh ? 0 : backoff.next(failure.retryAfter());
    if (wait < giveUpAt.left()) {
      core.tellRetry(rpc, failure.error());
      pause(wait, null, this::beginTry);
    } else {
      isOutOfTime = true;
      finish(told);
    }
  }

  // Until that time is over, the other event has come, or the caller is gone.
  private void pause(long nanos, @Nullable CompletableFuture<?> other, Runnable then) {
    pause(core, caller, nanos, other, () -> step(caller.isGone() ? this::finishWithLast : then));
  }

  private void finishWithLast() {
    finish(last != null ? last : CallFailure.notConnected());
  }

  private void finish(CallFailure failure) {
    end.complete(new Reply<>(null, failure));
  }

  // What goes wrong in here must end the call: somebody waits for it.
  private void step(Runnable step) {
    try {
      step.run();
    } catch (Throwable thrown) {
      mayHaveEffect = true;
      isWithoutEffect = false;
      finish(CallFailure.of(Status.INTERNAL.withCause(thrown).asRuntimeException()));
    }
  }

  /** Calls {@code then} once: when that time is over, on the other event, or the caller's end. */
  static void pause(
      Core core, Caller caller, long nanos, @Nullable CompletableFuture<?> other, Runnable then) {
    CompletableFuture<Void> wake = new CompletableFuture<>();
    Future<?> timer = core.timers.in(nanos, () -> wake.complete(null));
    // The client is closed: nothing else would ever wake this.
    if (timer == null) wake.complete(null);
    Futures.follow(caller.gone(), reason -> wake.complete(null));
    if (other != null) Futures.follow(other, value -> wake.complete(null));
    Futures.follow(
        wake,
        value -> {
          Timers.cancel(timer);
          then.run();
        });
  }
}
