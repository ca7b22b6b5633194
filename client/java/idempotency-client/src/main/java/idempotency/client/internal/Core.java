package idempotency.client.internal;

import idempotency.client.ChannelOptions;
import idempotency.client.ClientOptions;
import idempotency.client.IdempotencyException;
import idempotency.client.Key;
import idempotency.client.StopReason;
import idempotency.client.WorkResult;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/** What the calls of one client share. Thread-safe. */
public final class Core {
  static final System.Logger LOG = System.getLogger("idempotency.client");

  final ClientOptions options;
  final Timers timers = new Timers();
  final Channels channels;
  final LeaseClock clock;
  final OpenSet<Run> runs = new OpenSet<>();
  final OpenSet<Recorder> recorders = new OpenSet<>();
  final StayAlive stayAlive = new StayAlive();
  private final AtomicBoolean isClosing = new AtomicBoolean();
  private volatile boolean isClosed;
  private final AtomicLong unprotectedRuns = new AtomicLong();

  /** Channels are made; nothing is sent until the first call. */
  public Core(ChannelOptions channelOptions, ClientOptions options) {
    this.options = options;
    this.clock = LeaseClock.SYSTEM;
    this.channels = Channels.of(channelOptions, timers);
  }

  /** For tests. */
  Core(Channels channels, ClientOptions options, LeaseClock clock) {
    this.options = options;
    this.clock = clock;
    this.channels = channels;
  }

  /** How often work ran unprotected. */
  public long unprotectedRuns() {
    return unprotectedRuns.get();
  }

  /** See IdempotencyClient.close. */
  public void close() {
    if (!isClosing.compareAndSet(false, true)) return;
    runs.close();
    runs.members().forEach(Run::stopForClose);
    Moment end = Moment.in(options.shutdownTimeout());
    boolean interrupted = false;
    try {
      runs.awaitEmpty(end);
      recorders.awaitEmpty(end);
    } catch (InterruptedException e) {
      interrupted = true;
    }
    isClosed = true;
    recorders.close();
    recorders.members().forEach(Recorder::abandon);
    runs.members().forEach(run -> run.caller().leave(StopReason.CLOSED));
    stayAlive.stop();
    timers.stop();
    channels.shutDown();
    try {
      if (!interrupted) {
        // No more than a moment: nothing is lost with a connection that ends late.
        channels.calls().awaitTermination(1, TimeUnit.SECONDS);
        channels.waits().awaitTermination(1, TimeUnit.SECONDS);
      }
    } catch (InterruptedException e) {
      interrupted = true;
    }
    if (interrupted) Thread.currentThread().interrupt();
  }

  /** Work that has not begun must not begin any more. */
  boolean isClosing() {
    return isClosing.get();
  }

  /** No call can be made any more. */
  boolean isClosed() {
    return isClosed;
  }

  void tellRetry(String rpc, IdempotencyException.Builder error) {
    call(() -> options.hooks().onRetry(rpc, error.build()));
  }

  void tellRefresh() {
    call(() -> options.hooks().refreshCredentials());
  }

  void tellNotRecorded(Key key, WorkResult work, IdempotencyException.Builder error) {
    IdempotencyException told = error.build();
    LOG.log(
        System.Logger.Level.ERROR,
        "the outcome of merchant {0}, key {1} is not recorded: {2}",
        key.merchantId(),
        key.idempotencyKey(),
        told.kind().title());
    call(() -> options.hooks().onOutcomeNotRecorded(key, work, told));
  }

  void tellUnprotected(Key key, IdempotencyException error) {
    unprotectedRuns.incrementAndGet();
    LOG.log(
        System.Logger.Level.WARNING,
        "merchant {0}, key {1} runs unprotected: {2} {3}",
        key.merchantId(),
        key.idempotencyKey(),
        error.kind().title(),
        error.reason());
    call(() -> options.hooks().onUnprotected(key, error));
  }

  // No hook may cost an outcome.
  private static void call(Runnable hook) {
    try {
      hook.run();
    } catch (Throwable dropped) {
      // Its type only: its text may hold what is secret.
      LOG.log(
          System.Logger.Level.WARNING,
          "a hook of the idempotency client threw {0}",
          dropped.getClass().getName());
    }
  }
}
