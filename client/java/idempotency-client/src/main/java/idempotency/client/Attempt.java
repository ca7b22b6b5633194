package idempotency.client;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The right to do the work, as {@link Work} gets it. Thread-safe. A test of the work itself can
 * make one.
 */
public final class Attempt {
  private final Builder from;

  private Attempt(Builder from) {
    this.from = from;
  }

  /** The first attempt of a record, with {@code downstreamKey}, and nothing else yet. */
  public static Builder builder(String downstreamKey) {
    return new Builder(downstreamKey);
  }

  /** The record's UUID; empty if {@link #unprotected}. */
  public String recordId() {
    return from.recordId;
  }

  /** 1 for the first attempt of the record; 0 if {@link #unprotected}. */
  public int attemptNumber() {
    return from.attemptNumber;
  }

  /**
   * Greater than every one granted for this key before, below 2^53; 0 if {@link #unprotected}. Hand
   * it to systems that can refuse an older one.
   */
  public long fencingToken() {
    return from.fencingToken;
  }

  /**
   * A UUID, the same for all attempts of this record; empty if {@link #unprotected}. Send it to the
   * partner as its idempotency key.
   */
  public String downstreamKey() {
    return from.downstreamKey;
  }

  /**
   * A key for one of several partners, or one with a narrower field: {@link DownstreamKeys#derive}.
   *
   * @param partner your name for the partner: 1 to 64 of printable ASCII, and never another one
   * @param shape what the partner's field takes
   * @return the key, the same for all attempts of this record
   * @throws InvalidFieldException if the partner's name is out of bounds, and with {@code
   *     downstream_key} if this attempt is {@link #unprotected}
   */
  public String downstreamKeyFor(String partner, KeyShape shape) {
    return DownstreamKeys.derive(from.downstreamKey, partner, shape);
  }

  /** How many attempts ended without a known result. Above 0: ask the partner before paying. */
  public int unknownAttempts() {
    return from.unknownAttempts;
  }

  /** How the attempt before this one ended; null for the first. */
  public @Nullable PreviousAttempt previousAttempt() {
    return from.previousAttempt;
  }

  /**
   * The service had started this attempt before; its answer was lost and asked for again. The work
   * did not run then: this client never runs it twice under one attempt.
   */
  public boolean repeated() {
    return from.repeated;
  }

  /** What is in force for the record; a call can only tighten it. */
  public OnLeaseExpiry onLeaseExpiry() {
    return from.onLeaseExpiry;
  }

  /** The work runs without the service: nobody else is kept out, and nothing will be recorded. */
  public boolean unprotected() {
    return from.unprotected;
  }

  /**
   * Given when the lease is lost, {@link RunOptions.Builder#maxDuration} is over, or the caller is
   * gone.
   */
  public StopSignal stop() {
    return from.stop;
  }

  /**
   * How much of the lease is left; never negative. Counted from when the last accepted call was
   * sent, on the monotonic clock or the wall clock, whichever has moved further, because Java's
   * monotonic clock stands still while a machine is suspended. Ask right before the step that
   * cannot be undone. Without end (292 years) if {@link #unprotected}.
   */
  public Duration leaseRemaining() {
    return from.leaseRemaining.get();
  }

  /** Makes an {@link Attempt}. Not thread-safe. */
  public static final class Builder {
    private String recordId = "";
    private int attemptNumber = 1;
    private long fencingToken = 1;
    private final String downstreamKey;
    private int unknownAttempts;
    private @Nullable PreviousAttempt previousAttempt;
    private boolean repeated;
    private OnLeaseExpiry onLeaseExpiry = OnLeaseExpiry.TAKE_OVER;
    private boolean unprotected;
    private StopSignal stop = new StopSignal();
    private Supplier<Duration> leaseRemaining = () -> Duration.ofSeconds(60);

    private Builder(String downstreamKey) {
      this.downstreamKey = Objects.requireNonNull(downstreamKey, "downstreamKey");
    }

    /** Empty by default. */
    public Builder recordId(String recordId) {
      this.recordId = Objects.requireNonNull(recordId, "recordId");
      return this;
    }

    /** 1 by default. */
    public Builder attemptNumber(int attemptNumber) {
      this.attemptNumber = attemptNumber;
      return this;
    }

    /** 1 by default. */
    public Builder fencingToken(long fencingToken) {
      this.fencingToken = fencingToken;
      return this;
    }

    /** 0 by default. */
    public Builder unknownAttempts(int unknownAttempts) {
      this.unknownAttempts = unknownAttempts;
      return this;
    }

    /** None by default. */
    public Builder previousAttempt(@Nullable PreviousAttempt previousAttempt) {
      this.previousAttempt = previousAttempt;
      return this;
    }

    /** False by default. */
    public Builder repeated(boolean repeated) {
      this.repeated = repeated;
      return this;
    }

    /** {@link OnLeaseExpiry#TAKE_OVER} by default. */
    public Builder onLeaseExpiry(OnLeaseExpiry onLeaseExpiry) {
      this.onLeaseExpiry = Objects.requireNonNull(onLeaseExpiry, "onLeaseExpiry");
      return this;
    }

    /** False by default. */
    public Builder unprotected(boolean unprotected) {
      this.unprotected = unprotected;
      return this;
    }

    /** A signal of its own by default. */
    public Builder stop(StopSignal stop) {
      this.stop = Objects.requireNonNull(stop, "stop");
      return this;
    }

    /** Always 60 s by default. */
    public Builder leaseRemaining(Supplier<Duration> leaseRemaining) {
      this.leaseRemaining = Objects.requireNonNull(leaseRemaining, "leaseRemaining");
      return this;
    }

    /** What was said so far. */
    public Attempt build() {
      Builder copy = new Builder(downstreamKey);
      copy.recordId = recordId;
      copy.attemptNumber = attemptNumber;
      copy.fencingToken = fencingToken;
      copy.unknownAttempts = unknownAttempts;
      copy.previousAttempt = previousAttempt;
      copy.repeated = repeated;
      copy.onLeaseExpiry = onLeaseExpiry;
      copy.unprotected = unprotected;
      copy.stop = stop;
      copy.leaseRemaining = leaseRemaining;
      return new Attempt(copy);
    }
  }
}
