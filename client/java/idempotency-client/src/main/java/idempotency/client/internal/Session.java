package idempotency.client.internal;

import idempotency.client.AsyncWork;
import idempotency.client.Attempt;
import idempotency.client.ErrorKind;
import idempotency.client.IdempotencyException;
import idempotency.client.RunResult;
import idempotency.client.StopReason;
import idempotency.client.Work;
import idempotency.client.WorkResult;
import idempotency.client.internal.Recorder.Recorded;
import idempotency.client.internal.Starter.Granted;
import idempotency.client.internal.Starter.Start;
import idempotency.client.internal.Starter.Unreached;
import idempotency.v1.BeginResponse;
import idempotency.v1.Started;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/** The work of a run that may begin: under its lease, or unprotected; and the record of its end. */
final class Session {
  // How long a caller that is gone is still kept for the record: usually it takes milliseconds, and
  // then the caller gets the true answer.
  private static final Duration RECORD_GRACE = Duration.ofSeconds(1);

  private final Run.Parts run;
  // Null: the work runs unprotected.
  private final @Nullable BeginResponse response;
  private final @Nullable IdempotencyException unprotectedBecause;
  private final LeaseKeeper keeper;
  private final AtomicBoolean isClaimed = new AtomicBoolean();

  /** The lease is kept from now on. {@code onTick} is called at least once a second. */
  Session(Run.Parts run, Start start, Runnable onTick) {
    this.run = run;
    Duration most = run.options().maxDuration();
    if (start instanceof Granted granted) {
      response = granted.response();
      unprotectedBecause = null;
      keeper =
          new LeaseKeeper(
              run.core(), run.context(), run.owner().renewal(), granted.lease(), most, onTick);
    } else {
      response = null;
      unprotectedBecause = ((Unreached) start).error().build();
      keeper = new LeaseKeeper(run.core(), run.context(), null, null, most, onTick);
    }
    keeper.start();
    Futures.follow(run.caller().gone(), keeper::stop);
  }

  /** True for the first who asks: who may run the work or refuse it. */
  boolean claim() {
    return isClaimed.compareAndSet(false, true);
  }

  /** Asks the work to stop; its caller still waits. */
  void stop(StopReason reason) {
    keeper.stop(reason);
  }

  /** Why the work must not run after all, which can be found out until the very last moment. */
  @Nullable Ending refusal() {
    if (run.caller().isGone()) return refuse(run.caller().error());
    if (run.core().isClosing()) return refuse(Errors.closed());
    if (response != null && keeper.remaining().isZero()) {
      return refuse(Errors.of(ErrorKind.LEASE_LOST, "the lease was over before the work began"));
    }
    return null;
  }

  /** The work will not run. */
  Ending refuse(IdempotencyException.Builder error) {
    keeper.end();
    if (response != null) run.owner().release(true);
    return Ending.of(error);
  }

  /** Runs the work on this thread. */
  WorkEnd run(Work fn) {
    try {
      return WorkEnd.returned(fn.run(begin()));
    } catch (Throwable thrown) {
      return WorkEnd.threw(thrown, run.options().classify());
    }
  }

  /** Runs the work on this thread, unless it must not run, and records its end. */
  void run(AsyncWork fn, CompletableFuture<Ending> ended) {
    Ending refused = refusal();
    if (refused != null) {
      ended.complete(refused);
      return;
    }
    CompletableFuture<WorkEnd> work = new CompletableFuture<>();
    try {
      var unused =
          fn.run(begin()).whenComplete((value, thrown) -> work.complete(endOf(value, thrown)));
    } catch (Throwable thrown) {
      if (thrown instanceof InterruptedException) Thread.currentThread().interrupt();
      work.complete(endOf(null, thrown));
    }
    var unused =
        work.thenCompose(this::end).whenComplete((ending, bug) -> settle(ended, ending, bug));
  }

  private WorkEnd endOf(@Nullable WorkResult value, @Nullable Throwable thrown) {
    if (thrown == null) return WorkEnd.returned(value);
    return WorkEnd.threw(thrown, run.options().classify());
  }

  private Attempt begin() {
    Attempt.Builder attempt;
    if (response == null) {
      // Before the work, so that a crash in it does not hide that it ran.
      run.core().tellUnprotected(run.key(), Objects.requireNonNull(unprotectedBecause));
      attempt = UnprotectedRun.attempt();
    } else {
      Started started = response.getStarted();
      attempt =
          Attempt.builder(started.getDownstreamKey())
              .recordId(response.getRecordId())
              .attemptNumber(started.getAttemptNumber())
              .fencingToken(started.getFencingToken())
              .unknownAttempts(started.getUnknownAttempts())
              .repeated(started.getRepeated())
              .onLeaseExpiry(FromProto.onLeaseExpiry(response.getOnLeaseExpiry()));
      if (started.hasPreviousAttempt()) {
        attempt.previousAttempt(FromProto.previousAttempt(started.getPreviousAttempt()));
      }
    }
    return attempt.stop(keeper.stop()).leaseRemaining(keeper::remaining).build();
  }

  /** Records what the work came to; ends early, without the record, once the caller is gone. */
  CompletableFuture<Ending> end(WorkEnd work) {
    keeper.end();
    CompletableFuture<Ending> ending;
    if (response == null) {
      RunResult result = UnprotectedRun.result(work, Objects.requireNonNull(unprotectedBecause));
      ending = CompletableFuture.completedFuture(Ending.of(result));
    } else {
      ending = record(work, response);
    }
    if (!(work.thrown() instanceof Error crash)) return ending;
    return ending.thenApply(then -> then.crashing(crash));
  }

  private CompletableFuture<Ending> record(WorkEnd work, BeginResponse begun) {
    WorkResult result = work.work();
    Recorder recorder =
        new Recorder(
            run.core(),
            run.context(),
            result.outcome() != null
                ? run.owner().complete(result.outcome())
                : run.owner().fail(Objects.requireNonNull(result.failure())),
            error ->
                run.core()
                    .tellNotRecorded(run.key(), result, error.work(result).thrown(work.thrown())),
            false);
    Moment graceEnd = Moment.in(RECORD_GRACE);
    CompletableFuture<Ending> ending = new CompletableFuture<>();
    var unused =
        recorder
            .start()
            .thenApply(recorded -> endingOf(recorded, work, begun))
            .whenComplete((value, bug) -> settle(ending, value, bug));
    Futures.follow(run.caller().gone(), reason -> leaveAt(graceEnd, work, ending));
    return ending;
  }

  private static Ending endingOf(Recorded recorded, WorkEnd work, BeginResponse begun) {
    if (recorded.finishTime() == null) {
      IdempotencyException.Builder error = Objects.requireNonNull(recorded.error());
      return Ending.of(error.work(work.work()).thrown(work.thrown()));
    }
    return Ending.of(
        work.recorded(
            recorded.withoutBody(),
            begun.getRecordId(),
            begun.getStarted().getAttemptNumber(),
            recorded.finishTime()));
  }

  private void leaveAt(Moment graceEnd, WorkEnd work, CompletableFuture<Ending> ending) {
    if (ending.isDone()) return;
    IdempotencyException.Builder error =
        Errors.of(
                ErrorKind.OUTCOME_NOT_RECORDED,
                "the caller has left; what the work came to is still being recorded")
            .work(work.work())
            .thrown(work.thrown())
            .stillRecording(true);
    var unused = run.core().timers.in(graceEnd.left(), () -> ending.complete(Ending.of(error)));
  }

  // Whatever goes wrong, somebody waits.
  private static void settle(
      CompletableFuture<Ending> future, @Nullable Ending ending, @Nullable Throwable bug) {
    if (ending != null) {
      future.complete(ending);
    } else {
      future.completeExceptionally(bug == null ? new IllegalStateException() : bug);
    }
  }
}
