package idempotency.client.internal;

import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.internal.Sending.Reply;
import idempotency.v1.CompleteRequest;
import idempotency.v1.CompleteResponse;
import idempotency.v1.FailRequest;
import idempotency.v1.FailResponse;
import idempotency.v1.IdempotencyServiceGrpc;
import idempotency.v1.Outcome;
import io.grpc.Context;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Complete and Fail, until it is known whether they are recorded.
 *
 * <p>Detached from the caller, who may wait for the end or leave. Every repeat has identical bytes,
 * unless the service finds the body too large: then the outcome is recorded again by the body's
 * size and digest.
 *
 * <p>Thread-safe.
 */
final class Recorder {
  /**
   * How it ends.
   *
   * @param finishTime null: it is not recorded
   * @param error null: it is recorded
   */
  record Recorded(
      @Nullable Instant finishTime,
      boolean withoutBody,
      IdempotencyException.@Nullable Builder error) {}

  // When a release that came before its Begin is tried again. Guessed: a Begin takes milliseconds,
  // and one that is still queued when its caller has left is dropped.
  private static final Duration LATE_LOOK = Duration.ofSeconds(2);
  // For the last try, however little of the budget is left.
  private static final long SHORTEST_TIMEOUT = 100_000_000;

  private final Core core;
  private final Context context;
  private final @Nullable Consumer<IdempotencyException.Builder> onLost;
  private final Moment giveUpAt;
  private final CompletableFuture<Recorded> end = new CompletableFuture<>();
  private final AtomicBoolean isEnding = new AtomicBoolean();
  private volatile @Nullable Sending<?> current;

  // Of the try that is under way: one at a time, so they need no lock.
  private Message request;
  private final Backoff backoff = new Backoff();
  private boolean hasRefreshed;
  private boolean hasOmitted;
  private boolean mayBeEarly;

  /**
   * Does nothing yet.
   *
   * @param request a CompleteRequest or a FailRequest
   * @param onLost called once if it ends unrecorded, before anybody who waits is told
   * @param mayBeEarly the attempt's Begin may still be on its way, so that a refusal because the
   *     service does not know the attempt is looked at once more
   */
  Recorder(
      Core core,
      Context context,
      Message request,
      @Nullable Consumer<IdempotencyException.Builder> onLost,
      boolean mayBeEarly) {
    this.core = core;
    this.context = context;
    this.request = request;
    this.onLost = onLost;
    this.mayBeEarly = mayBeEarly;
    this.giveUpAt = Moment.in(core.options.recordTimeout());
  }

  /** Once. Begins the first try and returns at once. */
  CompletableFuture<Recorded> start() {
    if (core.recorders.add(this)) {
      core.stayAlive.enter();
      var unused = end.whenComplete((recorded, never) -> core.stayAlive.leave());
      step(this::send);
    } else {
      abandon();
    }
    return end;
  }

  /** Ends it as not recorded, unless it has ended. */
  void abandon() {
    finish(
        Errors.of(
            ErrorKind.OUTCOME_NOT_RECORDED,
            "the client was closed before the service had recorded it"));
    Sending<?> sending = current;
    if (sending != null) sending.cancel();
  }

  private void send() {
    if (isEnding.get()) return;
    long most = Moment.nanosOf(core.options.rpcTimeout());
    long timeout = Math.min(most, Math.max(giveUpAt.left(), SHORTEST_TIMEOUT));
    if (request instanceof CompleteRequest complete) {
      var sending =
          Sending.of(
              context,
              core.channels.calls(),
              IdempotencyServiceGrpc.getCompleteMethod(),
              complete,
              timeout,
              CompleteResponse::hasFinishTime);
      follow(sending, CompleteResponse::getFinishTime);
    } else {
      var sending =
          Sending.of(
              context,
              core.channels.calls(),
              IdempotencyServiceGrpc.getFailMethod(),
              (FailRequest) request,
              timeout,
              FailResponse::hasFinishTime);
      follow(sending, FailResponse::getFinishTime);
    }
  }

  private <A> void follow(Sending<A> sending, Function<A, Timestamp> finishTime) {
    current = sending;
    Futures.follow(sending.reply(), reply -> step(() -> onReply(reply, finishTime)));
  }

  private <A> void onReply(Reply<A> reply, Function<A, Timestamp> finishTime) {
    CallFailure failure = reply.failure();
    if (failure != null) {
      onFailure(failure);
      return;
    }
    Timestamp time = finishTime.apply(Objects.requireNonNull(reply.answer()));
    finish(new Recorded(FromProto.instant(time), hasOmitted, null));
  }

  private void onFailure(CallFailure failure) {
    long wait = 0;
    if (failure.code() == Status.Code.UNAUTHENTICATED) {
      if (hasRefreshed) {
        finish(failure.error());
        return;
      }
      hasRefreshed = true;
      core.tellRefresh();
    } else if (failure.isTooLarge()) {
      if (!omitBodyOnce()) {
        finish(failure.error());
        return;
      }
    } else if (mayBeEarly && isUnknownAttempt(failure)) {
      mayBeEarly = false;
      wait = LATE_LOOK.toNanos();
    } else if (!failure.isWorthRecordingAgain()) {
      finish(failure.error());
      return;
    } else {
      wait = backoff.next(failure.retryAfter());
    }
    if (giveUpAt.isOver()) {
      finish(failure.error(ErrorKind.OUTCOME_NOT_RECORDED));
      return;
    }
    if (isEnding.get()) return;
    core.tellRetry(request instanceof CompleteRequest ? "Complete" : "Fail", failure.error());
    var unused = core.timers.in(Math.min(wait, giveUpAt.left()), () -> step(this::send));
  }

  private static boolean isUnknownAttempt(CallFailure failure) {
    return failure.kind() == ErrorKind.RECORD_NOT_FOUND || failure.kind() == ErrorKind.LEASE_LOST;
  }

  private boolean omitBodyOnce() {
    if (hasOmitted) return false;
    if (request instanceof CompleteRequest complete) {
      Outcome outcome = complete.getOutcome();
      if (!outcome.hasBody()) return false;
      request = complete.toBuilder().setOutcome(ToProto.withoutBody(outcome)).build();
    } else {
      FailRequest fail = (FailRequest) request;
      Outcome outcome = fail.getFailure().getOutcome();
      if (!outcome.hasBody()) return false;
      FailRequest.Builder smaller = fail.toBuilder();
      smaller.getFailureBuilder().setOutcome(ToProto.withoutBody(outcome));
      request = smaller.build();
    }
    hasOmitted = true;
    return true;
  }

  private void finish(IdempotencyException.Builder error) {
    finish(new Recorded(null, false, error));
  }

  private void finish(Recorded recorded) {
    if (!isEnding.compareAndSet(false, true)) return;
    try {
      if (recorded.error() != null && onLost != null) onLost.accept(recorded.error());
    } finally {
      core.recorders.remove(this);
      end.complete(recorded);
    }
  }

  // What goes wrong in here must end the record: somebody waits for it.
  private void step(Runnable step) {
    try {
      step.run();
    } catch (Throwable thrown) {
      finish(Errors.of(ErrorKind.OUTCOME_NOT_RECORDED, "the client failed").cause(thrown));
    }
  }
}
