#include "idempotency/client/channel.h"

#include <algorithm>

#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace idempotency::client {
namespace {

// The server's limit, see kShortestPingInterval in server/rpc/server.cc.
constexpr std::chrono::milliseconds kShortestPingInterval = std::chrono::seconds(10);
// How soon a replica that restarts is tried again.
constexpr int kFirstReconnectMs = 200;

int Millis(std::chrono::milliseconds span) {
  return static_cast<int>(std::clamp<int64_t>(span.count(), 1, 24 * 3600 * 1000));
}

}  // namespace

Channels MakeChannels(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   Millis(std::max(options.keepalive_interval, kShortestPingInterval)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  // An idle connection that a firewall forgot is found out before the next payment needs it.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetServiceConfigJSON(R"({"loadBalancingConfig": [{"round_robin": {}}]})");
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   std::max(kFirstReconnectMs, Millis(options.max_reconnect_backoff)));
  // Otherwise channels with equal arguments share their connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return {grpc::CreateCustomChannel(options.target, options.credentials, arguments),
          grpc::CreateCustomChannel(options.target, options.credentials, arguments)};
}

}  // namespace idempotency::client
