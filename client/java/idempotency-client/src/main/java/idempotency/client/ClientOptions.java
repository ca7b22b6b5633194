package idempotency.client;

import java.time.Duration;
import java.util.Objects;

/** What holds for all calls of a client. Immutable. */
public final class ClientOptions {
  private final Duration rpcTimeout;
  private final Duration recordTimeout;
  private final Duration shutdownTimeout;
  private final int maxBackgroundRecords;
  private final Hooks hooks;

  private ClientOptions(Builder from) {
    rpcTimeout = from.rpcTimeout;
    recordTimeout = from.recordTimeout;
    shutdownTimeout = from.shutdownTimeout;
    maxBackgroundRecords = from.maxBackgroundRecords;
    hooks = from.hooks;
  }

  /** The defaults of every option. */
  public static ClientOptions defaults() {
    return builder().build();
  }

  /** Options that differ from the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** See {@link Builder#rpcTimeout}. */
  public Duration rpcTimeout() {
    return rpcTimeout;
  }

  /** See {@link Builder#recordTimeout}. */
  public Duration recordTimeout() {
    return recordTimeout;
  }

  /** See {@link Builder#shutdownTimeout}. */
  public Duration shutdownTimeout() {
    return shutdownTimeout;
  }

  /** See {@link Builder#maxBackgroundRecords}. */
  public int maxBackgroundRecords() {
    return maxBackgroundRecords;
  }

  /** See {@link Builder#hooks}. */
  public Hooks hooks() {
    return hooks;
  }

  /** Makes {@link ClientOptions}. Not thread-safe. */
  public static final class Builder {
    private Duration rpcTimeout = Duration.ofSeconds(5);
    private Duration recordTimeout = Duration.ofMinutes(5);
    private Duration shutdownTimeout = Duration.ofSeconds(10);
    private int maxBackgroundRecords = 10_000;
    private Hooks hooks = Hooks.NONE;

    private Builder() {}

    /** Bound of one try of a call, above 0, 5 s by default; waits come on top. */
    public Builder rpcTimeout(Duration rpcTimeout) {
      if (rpcTimeout.isNegative() || rpcTimeout.isZero())
        throw new IllegalArgumentException("rpcTimeout: above 0");
      this.rpcTimeout = rpcTimeout;
      return this;
    }

    /** How long an outcome is sent again and again until it is recorded; 5 min by default. */
    public Builder recordTimeout(Duration recordTimeout) {
      if (recordTimeout.isNegative())
        throw new IllegalArgumentException("recordTimeout: not below 0");
      this.recordTimeout = recordTimeout;
      return this;
    }

    /** How long closing waits for what is under way; 10 s by default. */
    public Builder shutdownTimeout(Duration shutdownTimeout) {
      if (shutdownTimeout.isNegative()) {
        throw new IllegalArgumentException("shutdownTimeout: not below 0");
      }
      this.shutdownTimeout = shutdownTimeout;
      return this;
    }

    /**
     * Records under way in the background; 10,000 by default. Past it a caller that gives up before
     * its work began leaves its key to its lease; what work came to is recorded however many there
     * are.
     */
    public Builder maxBackgroundRecords(int maxBackgroundRecords) {
      if (maxBackgroundRecords < 0) {
        throw new IllegalArgumentException("maxBackgroundRecords: not below 0");
      }
      this.maxBackgroundRecords = maxBackgroundRecords;
      return this;
    }

    /** Who is told; nobody by default. */
    public Builder hooks(Hooks hooks) {
      this.hooks = Objects.requireNonNull(hooks, "hooks");
      return this;
    }

    /** What was said so far. */
    public ClientOptions build() {
      return new ClientOptions(this);
    }
  }
}
