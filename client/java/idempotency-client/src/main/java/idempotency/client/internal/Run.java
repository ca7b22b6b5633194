package idempotency.client.internal;

import idempotency.client.AsyncWork;
import idempotency.client.ErrorKind;
import idempotency.client.Key;
import idempotency.client.OnLeaseExpiry;
import idempotency.client.Request;
import idempotency.client.RunOptions;
import idempotency.client.RunResult;
import idempotency.client.StopReason;
import idempotency.client.Work;
import idempotency.client.internal.Starter.Over;
import idempotency.client.internal.Starter.Start;
import io.grpc.Context;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/** One run, from its Begin to its record: who waits for it, and on which threads. For one call. */
public final class Run {
  /** What the parts of one run share. */
  record Parts(
      Core core, Key key, RunOptions options, Caller caller, Context context, Owner owner) {}

  private final Core core;
  private final Caller caller;
  private final Parts parts;
  private final Starter starter;
  // Both before it is looked whether the client closes, so that the one or the other is seen.
  private volatile @Nullable Session session;
  private volatile boolean hasBegunWork;

  // Of the thread that waits in blocking().
  private boolean wasInterrupted;

  /** REQUIRES: the arguments have been {@link Arguments#check checked}. */
  public Run(Core core, Key key, Request request, OnLeaseExpiry onLeaseExpiry, RunOptions options) {
    this.core = core;
    this.caller = new Caller(core.timers, options.deadline());
    Context context = caller.detachedContext();
    // From the system's random source; kept over all tries of this run.
    String attemptId = UUID.randomUUID().toString();
    var begin = ToProto.begin(key, request, onLeaseExpiry, options, attemptId);
    Owner owner = new Owner(core, context, begin);
    this.parts = new Parts(core, key, options, caller, context, owner);
    this.starter = new Starter(core, caller, context, begin, options, owner);
  }

  Caller caller() {
    return caller;
  }

  /** The client closes: work that has not begun does not, and work that runs is asked to stop. */
  void stopForClose() {
    Session running = session;
    if (running != null && hasBegunWork) {
      running.stop(StopReason.CLOSED);
    } else {
      caller.leave(StopReason.CLOSED);
    }
  }

  /** Runs the work on this thread. */
  public RunResult blocking(Work fn) {
    if (!core.runs.add(this)) {
      caller.close();
      throw Errors.closed().build();
    }
    try {
      // Nothing is sent for a caller that is gone already.
      if (Thread.interrupted()) leaveInterrupted();
      Start start = await(starter.start());
      if (Thread.interrupted()) leaveInterrupted();
      if (start instanceof Over over) return over.ending().orThrow();
      Thread worker = Thread.currentThread();
      Session session = session(start, () -> leaveIfInterrupted(worker));
      hasBegunWork = true;
      Ending refused = session.refusal();
      if (refused != null) return refused.orThrow();
      WorkEnd work = session.run(fn);
      if (work.thrown() instanceof InterruptedException) leaveInterrupted();
      return await(session.end(work)).orThrow();
    } finally {
      finish();
      if (wasInterrupted) Thread.currentThread().interrupt();
    }
  }

  /** Runs the work on the executor. */
  public CompletableFuture<RunResult> async(AsyncWork fn, Executor executor) {
    CompletableFuture<RunResult> result = new CompletableFuture<>();
    if (!core.runs.add(this)) {
      caller.close();
      result.completeExceptionally(Errors.closed().build());
      return result;
    }
    core.stayAlive.enter();
    // Also when this completes it: then nobody looks any more.
    var unused = result.whenComplete((value, thrown) -> caller.leave(StopReason.CANCELLED));
    var unusedEnd =
        starter
            .start()
            .thenCompose(start -> workOn(start, fn, executor))
            .whenComplete(
                (ending, bug) -> {
                  finish();
                  complete(result, ending, bug);
                  core.stayAlive.leave();
                });
    return result;
  }

  private static void complete(
      CompletableFuture<RunResult> result, @Nullable Ending ending, @Nullable Throwable bug) {
    try {
      if (ending == null) throw Errors.failed(bug).build();
      result.complete(ending.orThrow());
    } catch (Throwable thrown) {
      result.completeExceptionally(thrown);
    }
  }

  private CompletableFuture<Ending> workOn(Start start, AsyncWork fn, Executor executor) {
    if (start instanceof Over over) return CompletableFuture.completedFuture(over.ending());
    Session session = session(start, () -> {});
    CompletableFuture<Ending> ended = new CompletableFuture<>();
    // A caller that leaves while the work waits for a thread does not keep the key till then.
    Futures.follow(
        caller.gone(),
        reason -> {
          if (session.claim()) ended.complete(session.refuse(caller.error()));
        });
    try {
      executor.execute(
          () -> {
            if (!session.claim()) return;
            hasBegunWork = true;
            session.run(fn, ended);
          });
    } catch (Throwable refused) {
      // Rejected, or out of threads, or an executor's own bug: the key is not kept for it.
      if (session.claim()) {
        ended.complete(
            session.refuse(
                Errors.of(ErrorKind.UNAVAILABLE, "the executor refused the work").cause(refused)));
      }
    }
    return ended;
  }

  private Session session(Start start, Runnable onTick) {
    Session begun = new Session(parts, start, onTick);
    session = begun;
    return begun;
  }

  private void finish() {
    core.runs.remove(this);
    caller.close();
  }

  // Waits for what is sure to come; an interruption tells that the caller leaves.
  private <T> T await(CompletableFuture<T> future) {
    for (; ; ) {
      try {
        return future.get();
      } catch (InterruptedException e) {
        leaveInterrupted();
      } catch (ExecutionException bug) {
        throw Errors.failed(bug.getCause()).build();
      }
    }
  }

  private void leaveInterrupted() {
    wasInterrupted = true;
    caller.leave(StopReason.CANCELLED);
  }

  private void leaveIfInterrupted(Thread worker) {
    if (worker.isInterrupted()) caller.leave(StopReason.CANCELLED);
  }
}
