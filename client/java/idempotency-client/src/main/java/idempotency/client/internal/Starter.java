package idempotency.client.internal;

import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.OnUnavailable;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.v1.BeginRequest;
import idempotency.v1.BeginResponse;
import idempotency.v1.IdempotencyServiceGrpc;
import idempotency.v1.RenewRequest;
import idempotency.v1.RenewResponse;
import idempotency.v1.Started;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** Begin, until the work is this caller's to do, or it is known that it is not. For one run. */
final class Starter {
  /** How it ends. */
  sealed interface Start {}

  /** The work is this caller's, under a lease that was good a moment ago. */
  record Granted(BeginResponse response, Lease lease) implements Start {}

  /** The work may run without the service, which was not reached. */
  record Unreached(IdempotencyException.Builder error) implements Start {}

  /** The work does not run. */
  record Over(Ending ending) implements Start {}

  // The service counts a longer wait as this one; a caller that wants more asks again.
  private static final Duration LONGEST_WAIT = Duration.ofSeconds(30);

  // A service that says 0 is not asked in a busy loop.
  private static final long SHORTEST_PAUSE = 10_000_000;
  private static final int DOWNSTREAM_KEY_LENGTH = 36;

  private final Core core;
  private final Caller caller;
  private final Context context;
  private final BeginRequest request;
  private final Owner owner;
  private final boolean waits;
  private final Moment waitEnd;
  private final Moment giveUpAt;
  private final @Nullable ManagedChannel watched;
  private final CompletableFuture<Start> end = new CompletableFuture<>();
  // Of the try that is under way: one at a time, so they need no lock.
  private LeaseClock.Reading sentAt;
  private boolean mayBeStarted;
  private boolean mayRunUnprotected;

  Starter(
      Core core,
      Caller caller,
      Context context,
      BeginRequest request,
      RunOptions options,
      Owner owner) {
    this.core = core;
    this.caller = caller;
    this.context = context;
    this.request = request;
    this.owner = owner;
    this.waits = !options.waitTimeout().isZero();
    this.waitEnd = Moment.in(options.waitTimeout());
    this.giveUpAt = waitEnd.plus(options.startTimeout());
    this.mayRunUnprotected = options.onUnavailable() == OnUnavailable.RUN_UNPROTECTED;
    this.watched = mayRunUnprotected ? channel() : null;
    this.sentAt = core.clock.now();
  }

  /** Once. */
  CompletableFuture<Start> start() {
    step(this::begin);
    return end;
  }

  private ManagedChannel channel() {
    return waits ? core.channels.waits() : core.channels.calls();
  }

  private long waitLeft() {
    return Math.min(waitEnd.left(), LONGEST_WAIT.toNanos());
  }

  private void begin() {
    if (caller.isGone()) {
      giveUp(caller.error());
      return;
    }
    Repeat<BeginResponse> repeat =
        new Repeat<>(
            core,
            caller,
            "Begin",
            giveUpAt,
            Moment.nanosOf(core.options.rpcTimeout()) + waitLeft(),
            this::sendBegin,
            watched);
    Futures.follow(repeat.run(), reply -> step(() -> onReply(repeat, reply)));
  }

  private Sending<BeginResponse> sendBegin(long timeoutNanos) {
    BeginRequest sent =
        waits
            ? request.toBuilder()
                .setWaitTimeout(ToProto.duration(Duration.ofNanos(waitLeft())))
                .build()
            : request;
    sentAt = core.clock.now();
    return Sending.of(
        context,
        channel(),
        IdempotencyServiceGrpc.getBeginMethod(),
        sent,
        timeoutNanos,
        answer -> answer.getResultCase() != BeginResponse.ResultCase.RESULT_NOT_SET);
  }

  private void onReply(Repeat<BeginResponse> repeat, Sending.Reply<BeginResponse> reply) {
    if (repeat.mayHaveEffect()) mayBeStarted = true;
    if (reply.failure() != null) {
      onFailure(repeat, reply.failure());
      return;
    }
    BeginResponse response = Objects.requireNonNull(reply.answer());
    switch (response.getResultCase()) {
      case STARTED -> onStarted(response);
      case REPLAY -> {
        RunResult replayed = FromProto.replayed(response);
        if (replayed != null) {
          end.complete(new Over(Ending.of(replayed)));
        } else {
          onStrangeAnswer();
        }
      }
      case IN_PROGRESS -> onInProgress(FromProto.inProgress(response));
      default -> onStrangeAnswer();
    }
  }

  private void onFailure(Repeat<BeginResponse> repeat, CallFailure failure) {
    if (caller.isGone()) {
      giveUp(caller.error());
      return;
    }
    // The service knows this attempt as one that was started, or cannot tell us whether it does (it
    // may have run the call twice): what never began is said not to have happened. If the attempt
    // is none of the record's, that changes nothing.
    boolean isOver =
        failure.kind() == ErrorKind.LEASE_LOST || failure.kind() == ErrorKind.NEEDS_RESOLUTION;
    if (isOver && !mayBeStarted) owner.release(false);
    boolean endedByTime = failure.isWorthRepeating() && repeat.isOutOfTime();
    if (mayRunUnprotected && endedByTime && repeat.isWithoutEffect() && !mayBeStarted) {
      end.complete(new Unreached(failure.error()));
    } else {
      giveUp(failure.error());
    }
  }

  private void onStrangeAnswer() {
    mayBeStarted = true;
    giveUp(
        Errors.of(
            ErrorKind.INTERNAL, "the service's answer to Begin is none that this client knows"));
  }

  // Another attempt owns the work, so ours does not. The service is asked again if it ended the
  // wait early, which it may when it holds too many.
  private void onInProgress(RunResult.InProgress inProgress) {
    mayBeStarted = false;
    mayRunUnprotected = false;
    long wait = Moment.nanosOf(inProgress.retryAfter());
    if (wait >= waitEnd.left()) {
      end.complete(new Over(Ending.of(inProgress)));
    } else {
      Repeat.pause(core, caller, Math.max(wait, SHORTEST_PAUSE), null, () -> step(this::begin));
    }
  }

  private void onStarted(BeginResponse response) {
    mayBeStarted = true;
    Started started = response.getStarted();
    if (!started.getAttemptId().equals(request.getAttemptId())) {
      giveUp(Errors.of(ErrorKind.INTERNAL, "the service started another attempt than ours"));
      return;
    }
    if (!isWhole(response)) {
      onStrangeAnswer();
      return;
    }
    Lease lease = new Lease(sentAt, FromProto.nanos(started.getLeaseRemaining()));
    if (caller.isGone()) {
      giveUp(caller.error());
    } else if (lease.left(core.clock) > 0) {
      end.complete(new Granted(response, lease));
    } else {
      // Over before it came here: a repeat of a Begin whose first answer was lost, or a slow way.
      // Only a Renew makes it good.
      renew(response);
    }
  }

  // Without its downstream key, say, the work would pay under an empty one.
  private static boolean isWhole(BeginResponse response) {
    Started started = response.getStarted();
    return started.hasLeaseRemaining()
        && !response.getRecordId().isEmpty()
        && started.getAttemptNumber() >= 1
        && started.getDownstreamKey().length() == DOWNSTREAM_KEY_LENGTH;
  }

  private void renew(BeginResponse response) {
    RenewRequest renewal = owner.renewal();
    Repeat<RenewResponse> repeat =
        new Repeat<>(
            core,
            caller,
            "Renew",
            giveUpAt,
            Moment.nanosOf(core.options.rpcTimeout()),
            timeoutNanos -> {
              sentAt = core.clock.now();
              return Sending.of(
                  context,
                  core.channels.calls(),
                  IdempotencyServiceGrpc.getRenewMethod(),
                  renewal,
                  timeoutNanos,
                  RenewResponse::hasLeaseRemaining);
            },
            null);
    Futures.follow(repeat.run(), reply -> step(() -> onRenewed(response, reply)));
  }

  private void onRenewed(BeginResponse response, Sending.Reply<RenewResponse> reply) {
    RenewResponse answer = reply.answer();
    if (caller.isGone()) {
      giveUp(caller.error());
    } else if (answer == null) {
      giveUp(Objects.requireNonNull(reply.failure()).error());
    } else {
      Lease lease = new Lease(sentAt, FromProto.nanos(answer.getLeaseRemaining()));
      if (lease.left(core.clock) > 0) {
        end.complete(new Granted(response, lease));
      } else {
        giveUp(
            Errors.of(
                ErrorKind.LEASE_LOST, "the lease is shorter than the way to the service and back"));
      }
    }
  }

  private void giveUp(IdempotencyException.Builder error) {
    if (mayBeStarted) owner.release(true);
    end.complete(new Over(Ending.of(error)));
  }

  // What goes wrong in here must end the start: somebody waits for it.
  private void step(Runnable step) {
    try {
      step.run();
    } catch (Throwable thrown) {
      mayBeStarted = true;
      giveUp(Errors.failed(thrown));
    }
  }
}
