package idempotency.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/**
 * Does a piece of work once, however often it is asked for. Thread-safe.
 *
 * <pre>{@code
 * RunResult result = runner.runOnce(
 *     new Key(merchant, idempotencyKey), Request.json("POST /payments", body), OnLeaseExpiry.TAKE_OVER,
 *     attempt -> {
 *       Answer answer = partner.pay(attempt.downstreamKey(), order);  // may throw: then it is unknown
 *       if (answer.refused()) return WorkResult.finalFailure("DECLINED", answer.words());
 *       return WorkResult.completed(Outcome.status(201).json(answer.body()).build());
 *     });
 * }</pre>
 *
 * <p>Every argument is looked at before anything is sent: null, an empty key, a negative span is an
 * {@link InvalidFieldException}, and the work does not run.
 */
public interface Runner {
  /**
   * Runs {@code fn} on the calling thread if the work of {@code key} is this caller's to do, and
   * returns what is recorded. {@code fn} runs at most once, and not at all when the service cannot
   * be reached.
   *
   * <p>The interruption of the calling thread means that the caller leaves; the flag stays set. So
   * does the end of the current {@link io.grpc.Context}. An {@link Error} that {@code fn} throws is
   * recorded as unknown and thrown again.
   *
   * @param key which operation this is
   * @param request what is asked for
   * @param onLeaseExpiry what happens when a process dies in the middle
   * @param fn the work
   * @param options how to run it
   * @return what it came to
   * @throws IdempotencyException if it came to nothing that is recorded; its {@link
   *     IdempotencyException#work} tells whether {@code fn} ran
   */
  RunResult runOnce(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, Work fn, RunOptions options);

  /** {@link #runOnce(Key, Request, OnLeaseExpiry, Work, RunOptions)} with all defaults. */
  default RunResult runOnce(Key key, Request request, OnLeaseExpiry onLeaseExpiry, Work fn) {
    return runOnce(key, request, onLeaseExpiry, fn, RunOptions.defaults());
  }

  /**
   * As {@link #runOnce(Key, Request, OnLeaseExpiry, Work, RunOptions)}, without holding a thread.
   *
   * @param key which operation this is
   * @param request what is asked for
   * @param onLeaseExpiry what happens when a process dies in the middle
   * @param fn the work, which answers later
   * @param options how to run it
   * @return what it came to; ends with an {@link IdempotencyException} where {@code runOnce}
   *     throws. Cancelling it, or completing it in another way, means that the caller leaves: what
   *     {@code fn} comes to is recorded all the same
   */
  CompletableFuture<RunResult> runOnceAsync(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, AsyncWork fn, RunOptions options);

  /**
   * As {@link #runOnceAsync(Key, Request, OnLeaseExpiry, AsyncWork, RunOptions)}, for work that
   * blocks.
   *
   * @param key which operation this is
   * @param request what is asked for
   * @param onLeaseExpiry what happens when a process dies in the middle
   * @param fn the work
   * @param executor runs {@code fn}. If it refuses to, the work has not run and the key is
   *     released: {@link UnavailableException}
   * @param options how to run it
   * @return as above
   */
  CompletableFuture<RunResult> runOnceAsync(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      Work fn,
      Executor executor,
      RunOptions options);

  /**
   * What is known about a key, as of now; asked for up to 30 s.
   *
   * @param key which operation; its ttl does not matter
   * @param includeBody the outcome's body, too
   * @return the record
   * @throws RecordNotFoundException if nothing is known
   * @throws IdempotencyException if the service cannot be asked
   */
  IdempotencyRecord lookup(Key key, boolean includeBody);
}
