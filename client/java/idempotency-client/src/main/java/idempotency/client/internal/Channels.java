package idempotency.client.internal;

import idempotency.client.ChannelOptions;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * The two channels to the service.
 *
 * @param calls for everything but waits
 * @param waits for Begins with a wait_timeout, so that these never hold up a Complete
 */
record Channels(ManagedChannel calls, ManagedChannel waits) {
  private static final int MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
  private static final Duration SHORTEST_BACKOFF = Duration.ofMillis(200);

  /** Connects lazily: a service that is away is found out by the first call. */
  static Channels of(ChannelOptions options, Timers timers) {
    Channels channels = new Channels(channel(options), channel(options));
    Duration asked = options.maxReconnectBackoff();
    long nanos = Moment.nanosOf(asked.compareTo(SHORTEST_BACKOFF) < 0 ? SHORTEST_BACKOFF : asked);
    hurry(channels.calls, timers, nanos);
    hurry(channels.waits, timers, nanos);
    return channels;
  }

  private static ManagedChannel channel(ChannelOptions options) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(options.target(), options.credentials());
    options.configure().accept(builder);
    Duration interval = options.keepaliveInterval();
    if (interval.compareTo(ChannelOptions.SHORTEST_KEEPALIVE) < 0) {
      interval = ChannelOptions.SHORTEST_KEEPALIVE;
    }
    long timeout = Math.max(1, Moment.nanosOf(options.keepaliveTimeout()));
    return builder
        .keepAliveTime(Moment.nanosOf(interval), TimeUnit.NANOSECONDS)
        .keepAliveTimeout(timeout, TimeUnit.NANOSECONDS)
        // An idle connection that a firewall forgot is found out before the next payment needs it.
        .keepAliveWithoutCalls(true)
        .defaultLoadBalancingPolicy("round_robin")
        .disableServiceConfigLookUp()
        .disableRetry()
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .build();
  }

  // gRPC's pauses between two tries to connect grow to 2 min, and the API has no bound for them;
  // but it can be told to try at once.
  private static void hurry(ManagedChannel channel, Timers timers, long nanos) {
    ConnectivityState state = channel.getState(false);
    if (state == ConnectivityState.SHUTDOWN) return;
    channel.notifyWhenStateChanged(state, () -> hurry(channel, timers, nanos));
    if (state == ConnectivityState.TRANSIENT_FAILURE) hurryOn(channel, timers, nanos);
  }

  private static void hurryOn(ManagedChannel channel, Timers timers, long nanos) {
    var unused =
        timers.in(
            nanos,
            () -> {
              if (channel.getState(false) != ConnectivityState.TRANSIENT_FAILURE) return;
              channel.resetConnectBackoff();
              hurryOn(channel, timers, nanos);
            });
  }

  static boolean isDown(ManagedChannel channel) {
    return channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
  }

  void shutDown() {
    calls.shutdownNow();
    waits.shutdownNow();
  }
}
