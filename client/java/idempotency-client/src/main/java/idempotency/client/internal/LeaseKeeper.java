package idempotency.client.internal;

import idempotency.client.ErrorKind;
import idempotency.client.StopReason;
import idempotency.client.StopSignal;
import idempotency.client.internal.Sending.Reply;
import idempotency.v1.IdempotencyServiceGrpc;
import idempotency.v1.RenewRequest;
import idempotency.v1.RenewResponse;
import io.grpc.Context;
import io.grpc.Status;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/**
 * Keeps an attempt's lease while the work runs, and asks the work to stop when it must.
 *
 * <p>Renew goes out a third of the lease after the last accepted Begin or Renew was sent. A Renew
 * that fails is repeated until one is accepted or refused for good, also after the lease's local
 * end: the work is told to stop by then, but as long as it has not stopped it is better that nobody
 * else starts. It ends with max_duration, so that hanging work does not hold the key for ever.
 *
 * <p>Thread-safe.
 */
final class LeaseKeeper {
  // A timer does not count the time that a machine is suspended, so the clock is looked at this
  // often; and an interruption of the thread that works is noticed no other way.
  private static final long LONGEST_SLEEP = 1_000_000_000;
  private static final long SHORTEST_TIMEOUT = 200_000_000;

  private final Core core;
  private final Context context;
  private final @Nullable RenewRequest renewal;
  private final LeaseClock.Reading begun;
  private final long maxNanos;
  private final Runnable onTick;
  private final StopSignal stop = new StopSignal();

  // Guarded by this.
  private @Nullable Lease lease;
  private long renewAfter; // counted from the lease's sentAt
  private final Backoff backoff = new Backoff(Duration.ofSeconds(1));
  private boolean hasRefreshed;
  private boolean isOver; // no Renew any more
  private boolean hasEnded;
  private boolean isAskedToStop;
  private boolean isRenewing;
  private @Nullable Sending<RenewResponse> current;
  private @Nullable Future<?> timer;

  /**
   * Does nothing yet.
   *
   * @param renewal null: there is no lease to keep
   * @param lease null: as above
   * @param maxDuration when to stop
   * @param onTick called at least once a second
   */
  LeaseKeeper(
      Core core,
      Context context,
      @Nullable RenewRequest renewal,
      @Nullable Lease lease,
      Duration maxDuration,
      Runnable onTick) {
    this.core = core;
    this.context = context;
    this.renewal = renewal;
    this.lease = lease;
    this.renewAfter = lease == null ? 0 : lease.third();
    this.isOver = renewal == null;
    this.begun = core.clock.now();
    this.maxNanos = Moment.nanosOf(maxDuration);
    this.onTick = onTick;
  }

  StopSignal stop() {
    return stop;
  }

  void start() {
    schedule();
  }

  /** No Renew is sent any more, one that is under way is cancelled, nothing is asked to stop. */
  void end() {
    Sending<RenewResponse> cancelled;
    synchronized (this) {
      hasEnded = true;
      isOver = true;
      Timers.cancel(timer);
      cancelled = current;
    }
    if (cancelled != null) cancelled.cancel();
  }

  /** Asks to stop, for the first reason only. */
  void stop(StopReason reason) {
    synchronized (this) {
      if (hasEnded || isAskedToStop) return;
      isAskedToStop = true;
    }
    // Without the lock: it calls back into the application.
    stop.request(reason);
  }

  /** Never negative; endless if there is no lease. */
  synchronized Duration remaining() {
    return lease == null ? UnprotectedRun.ENDLESS : Duration.ofNanos(lease.left(core.clock));
  }

  private synchronized void schedule() {
    if (hasEnded) return;
    long wait = LONGEST_SLEEP;
    if (!isAskedToStop || !isOver) wait = Math.min(wait, maxNanos - core.clock.since(begun));
    if (lease != null) {
      if (!isAskedToStop) wait = Math.min(wait, lease.left(core.clock));
      if (!isOver && !isRenewing) {
        wait = Math.min(wait, renewAfter - core.clock.since(lease.sentAt()));
      }
    }
    Timers.cancel(timer);
    timer = core.timers.in(Math.max(0, wait), this::tick);
  }

  private void tick() {
    // Whatever goes wrong in here, renewing goes on.
    try {
      look();
    } finally {
      schedule();
    }
  }

  private void look() {
    onTick.run();
    StopReason reason = StopReason.NONE;
    boolean isDue;
    synchronized (this) {
      if (hasEnded) return;
      if (core.clock.since(begun) >= maxNanos) {
        isOver = true;
        reason = StopReason.MAX_DURATION;
      } else if (lease != null && lease.left(core.clock) == 0) {
        reason = StopReason.LEASE_LOST;
      }
      isDue = !isOver && !isRenewing && lease != null;
      if (isDue && lease != null) isDue = core.clock.since(lease.sentAt()) >= renewAfter;
      if (isDue) isRenewing = true;
    }
    if (reason != StopReason.NONE) stop(reason);
    if (isDue) sendRenew();
  }

  private void sendRenew() {
    RenewRequest request = Objects.requireNonNull(renewal);
    LeaseClock.Reading sentAt = core.clock.now();
    Sending<RenewResponse> sending =
        Sending.of(
            context,
            core.channels.calls(),
            IdempotencyServiceGrpc.getRenewMethod(),
            request,
            renewTimeout(),
            RenewResponse::hasLeaseRemaining);
    boolean isTooLate;
    synchronized (this) {
      current = sending;
      isTooLate = hasEnded;
    }
    if (isTooLate) sending.cancel();
    Futures.follow(sending.reply(), reply -> onReply(reply, sentAt));
  }

  // A try that hangs leaves time for another one.
  private synchronized long renewTimeout() {
    long most = Math.max(Moment.nanosOf(core.options.rpcTimeout()), SHORTEST_TIMEOUT);
    long third = lease == null ? 0 : lease.third();
    return Math.min(most, Math.max(SHORTEST_TIMEOUT, third));
  }

  private void onReply(Reply<RenewResponse> reply, LeaseClock.Reading sentAt) {
    CallFailure failure = reply.failure();
    boolean isLost = false;
    boolean refresh = false;
    synchronized (this) {
      current = null;
      isRenewing = false;
      if (hasEnded) return;
      if (failure == null) {
        RenewResponse answer = Objects.requireNonNull(reply.answer());
        lease = new Lease(sentAt, FromProto.nanos(answer.getLeaseRemaining()));
        renewAfter = lease.third();
        backoff.reset();
        hasRefreshed = false;
      } else {
        isLost =
            failure.kind() == ErrorKind.LEASE_LOST || failure.kind() == ErrorKind.RECORD_NOT_FOUND;
        if (isLost) isOver = true;
        refresh = onFailure(failure);
      }
    }
    if (refresh) core.tellRefresh();
    if (isLost) {
      stop(StopReason.LEASE_LOST);
    } else if (failure != null) {
      core.tellRetry("Renew", failure.error());
    }
    schedule();
  }

  // Whether the credentials are to be refreshed. Called with the lock.
  private boolean onFailure(CallFailure failure) {
    // NEEDS_RESOLUTION: the takeover window leaves no lease. The one that is held runs to its end.
    if (failure.kind() == ErrorKind.NEEDS_RESOLUTION || failure.kind() == ErrorKind.INVALID_FIELD) {
      isOver = true;
      return false;
    }
    // Told not to repeat it: the next one is another call, when it would be due anyway.
    boolean isPutOff = failure.mustNotRetry();
    boolean refresh = failure.code() == Status.Code.UNAUTHENTICATED && !isPutOff && !hasRefreshed;
    if (refresh) hasRefreshed = true;
    long wait = refresh ? 0 : backoff.next(failure.retryAfter());
    if (isPutOff && lease != null) wait = lease.third();
    if (lease != null) renewAfter = core.clock.since(lease.sentAt()) + wait;
    return refresh;
  }
}
