package idempotency.client;

import io.grpc.ChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * How the service is reached. Immutable.
 *
 * <p>The client makes two channels of it: one for calls, and one with connections of its own for
 * calls that wait for somebody else's outcome, so that these never hold up a record. Calls go round
 * robin over all addresses of the name. gRPC's own retries are off, also those that a name service
 * could turn on: the client repeats calls itself, because it knows which may be repeated how.
 */
public final class ChannelOptions {
  /** The service cuts clients off that ping more often; less is raised to that. */
  public static final Duration SHORTEST_KEEPALIVE = Duration.ofSeconds(10);

  private final String target;
  private final ChannelCredentials credentials;
  private final Duration keepaliveInterval;
  private final Duration keepaliveTimeout;
  private final Duration maxReconnectBackoff;
  private final Consumer<? super ManagedChannelBuilder<?>> configure;

  private ChannelOptions(Builder from) {
    target = from.target;
    credentials = from.credentials;
    keepaliveInterval = from.keepaliveInterval;
    keepaliveTimeout = from.keepaliveTimeout;
    maxReconnectBackoff = from.maxReconnectBackoff;
    configure = from.configure;
  }

  /**
   * Options with all defaults.
   *
   * @param target a gRPC name: {@code dns:///idempotency.payments.svc:50051}. Without a scheme it
   *     is a DNS name, too
   * @param credentials such as {@link io.grpc.TlsChannelCredentials}, composed with call
   *     credentials where the service asks for a token ({@link
   *     io.grpc.CompositeChannelCredentials}); {@link io.grpc.InsecureChannelCredentials} only on a
   *     network that is trusted
   * @return the options
   */
  public static ChannelOptions of(String target, ChannelCredentials credentials) {
    return builder(target, credentials).build();
  }

  /** Options that differ from the defaults; the arguments are those of {@link #of}. */
  public static Builder builder(String target, ChannelCredentials credentials) {
    return new Builder(target, credentials);
  }

  /** See {@link #of}. */
  public String target() {
    return target;
  }

  /** See {@link #of}. */
  public ChannelCredentials credentials() {
    return credentials;
  }

  /** See {@link Builder#keepaliveInterval}. */
  public Duration keepaliveInterval() {
    return keepaliveInterval;
  }

  /** See {@link Builder#keepaliveTimeout}. */
  public Duration keepaliveTimeout() {
    return keepaliveTimeout;
  }

  /** See {@link Builder#maxReconnectBackoff}. */
  public Duration maxReconnectBackoff() {
    return maxReconnectBackoff;
  }

  /** See {@link Builder#configure}. */
  public Consumer<? super ManagedChannelBuilder<?>> configure() {
    return configure;
  }

  /** Makes {@link ChannelOptions}. Not thread-safe. */
  public static final class Builder {
    private final String target;
    private final ChannelCredentials credentials;
    private Duration keepaliveInterval = Duration.ofSeconds(20);
    private Duration keepaliveTimeout = Duration.ofSeconds(10);
    private Duration maxReconnectBackoff = Duration.ofSeconds(5);
    private Consumer<? super ManagedChannelBuilder<?>> configure = builder -> {};

    private Builder(String target, ChannelCredentials credentials) {
      this.target = Objects.requireNonNull(target, "target");
      this.credentials = Objects.requireNonNull(credentials, "credentials");
    }

    /**
     * Between two keepalive pings, 20 s by default; less than {@link #SHORTEST_KEEPALIVE} is raised
     * to that.
     */
    public Builder keepaliveInterval(Duration keepaliveInterval) {
      this.keepaliveInterval = Objects.requireNonNull(keepaliveInterval, "keepaliveInterval");
      return this;
    }

    /** How long a ping may go unanswered before the connection counts as dead; 10 s by default. */
    public Builder keepaliveTimeout(Duration keepaliveTimeout) {
      this.keepaliveTimeout = Objects.requireNonNull(keepaliveTimeout, "keepaliveTimeout");
      return this;
    }

    /** The longest pause between two tries to connect; 5 s by default, at least 200 ms. */
    public Builder maxReconnectBackoff(Duration maxReconnectBackoff) {
      this.maxReconnectBackoff = Objects.requireNonNull(maxReconnectBackoff, "maxReconnectBackoff");
      return this;
    }

    /**
     * Sets up each of the two channels further, before the client's own settings, which win: an
     * authority, an executor, interceptors for tracing.
     */
    public Builder configure(Consumer<? super ManagedChannelBuilder<?>> configure) {
      this.configure = Objects.requireNonNull(configure, "configure");
      return this;
    }

    /** What was said so far. */
    public ChannelOptions build() {
      return new ChannelOptions(this);
    }
  }
}
