package idempotency.client;

import idempotency.client.internal.Arguments;
import idempotency.client.internal.Core;
import idempotency.client.internal.Lookup;
import idempotency.client.internal.Run;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import org.jspecify.annotations.Nullable;

/**
 * The client of the idempotency service: a {@link Runner} over gRPC. One for the process;
 * thread-safe.
 *
 * <pre>{@code
 * try (var client = IdempotencyClient.connect(ChannelOptions.of(target, credentials))) {
 *   RunResult result = client.runOnce(...);  // see Runner
 * }
 * }</pre>
 *
 * <p>It has one thread of its own, which renews leases and repeats calls. Like gRPC's it is a
 * daemon, but while something is being recorded, or a {@link #runOnceAsync} has not ended, another
 * one keeps the JVM from ending. {@code System.exit} and signals wait for neither: {@link #close}
 * in a shutdown hook. What it sees to, so that callers cannot get it wrong:
 *
 * <ul>
 *   <li>An attempt has an id from the system's random source, kept over all tries of the same call,
 *       so that a lost answer is safe to repeat.
 *   <li>Fail closed: without a {@code started} from the service the work does not run.
 *   <li>The lease is renewed at a third of it; the work is asked to stop when it is lost, or its
 *       local deadline passes, counted from when the last accepted call was sent.
 *   <li>What the work came to is recorded whether or not the caller still waits, with identical
 *       bytes, and repeated until it is known to be recorded or refused.
 *   <li>Everything that is not known is recorded as unknown.
 *   <li>A caller that gives up before its work began releases the key.
 * </ul>
 */
public final class IdempotencyClient implements Runner, AutoCloseable {
  private final Core core;

  private IdempotencyClient(Core core) {
    this.core = core;
  }

  /** A client with all defaults. */
  public static IdempotencyClient connect(ChannelOptions channel) {
    return connect(channel, ClientOptions.defaults());
  }

  /** A client. Nothing is sent until the first call: a service that is away is found out by it. */
  public static IdempotencyClient connect(ChannelOptions channel, ClientOptions options) {
    Objects.requireNonNull(channel, "channel");
    return new IdempotencyClient(new Core(channel, Objects.requireNonNull(options, "options")));
  }

  @Override
  public RunResult runOnce(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, Work fn, RunOptions options) {
    Arguments.check(key, request, onLeaseExpiry, fn, options);
    return new Run(core, key, request, onLeaseExpiry, options).blocking(fn);
  }

  @Override
  public CompletableFuture<RunResult> runOnceAsync(
      Key key, Request request, OnLeaseExpiry onLeaseExpiry, AsyncWork fn, RunOptions options) {
    return runAsync(key, request, onLeaseExpiry, fn, ForkJoinPool.commonPool(), options);
  }

  @Override
  public CompletableFuture<RunResult> runOnceAsync(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      Work fn,
      Executor executor,
      RunOptions options) {
    Objects.requireNonNull(executor, "executor");
    return runAsync(key, request, onLeaseExpiry, fn == null ? null : later(fn), executor, options);
  }

  private static AsyncWork later(Work fn) {
    return attempt -> CompletableFuture.completedFuture(fn.run(attempt));
  }

  private CompletableFuture<RunResult> runAsync(
      Key key,
      Request request,
      OnLeaseExpiry onLeaseExpiry,
      @Nullable AsyncWork fn,
      Executor executor,
      RunOptions options) {
    try {
      Arguments.check(key, request, onLeaseExpiry, fn, options);
    } catch (IdempotencyException refused) {
      return CompletableFuture.failedFuture(refused);
    }
    return new Run(core, key, request, onLeaseExpiry, options)
        .async(Objects.requireNonNull(fn), executor);
  }

  @Override
  public IdempotencyRecord lookup(Key key, boolean includeBody) {
    Arguments.check(key);
    return Lookup.of(core, key, includeBody);
  }

  /** How often work ran without the service since this client was made. For metrics. */
  public long unprotectedRuns() {
    return core.unprotectedRuns();
  }

  /**
   * Ends calls whose work has not begun ({@link UnavailableException}), asks work that runs to stop
   * ({@link StopReason#CLOSED}), and waits, for at most {@link
   * ClientOptions.Builder#shutdownTimeout}, for that and for what is still being recorded, also in
   * the background; leases are renewed meanwhile. What is not recorded by then is given up and told
   * to {@link Hooks#onOutcomeNotRecorded}, and so is what work comes to that ends later. Calls made
   * later end with {@link UnavailableException}. Not to be called by the work itself, which it
   * would wait for.
   */
  @Override
  public void close() {
    core.close();
  }
}
