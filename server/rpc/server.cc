#include "server/rpc/server.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

// Guessed, but for the first: the architecture asks for it.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(5);
constexpr absl::Duration kMaxConnectionAge = absl::Minutes(10);
// Longer than kMaxWait, so that no held Begin is cut off.
constexpr absl::Duration kMaxConnectionAgeGrace = absl::Seconds(40);
constexpr absl::Duration kKeepaliveInterval = absl::Minutes(1);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);
// Clients that ping more often are cut off.
constexpr absl::Duration kShortestPingInterval = absl::Seconds(10);

#ifdef GRPC_ARG_MAX_ALLOWED_INCOMING_CONNECTIONS
// Guessed: far more than the clients of one replica.
constexpr int kMaxConnections = 10'000;
#endif

// Memory for messages on their way in, beside what the engine's own bounds hold. Under
// pressure gRPC reads more slowly and refuses streams. Guessed: 64 of the largest messages at once,
// far more than usual ones ever need.
constexpr size_t kMemoryQuota = 256 * kMiB;

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetLimits(grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("idempotencyd");
  quota.Resize(kMemoryQuota);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxReceiveBytes));
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Otherwise a second server on the same port would share it in silence.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
#ifdef GRPC_ARG_MAX_ALLOWED_INCOMING_CONNECTIONS
  // Not in 1.51: there the memory's quota and the process's file descriptors bound them.
  builder.AddChannelArgument(GRPC_ARG_MAX_ALLOWED_INCOMING_CONNECTIONS, kMaxConnections);
#endif
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(kHandshakeTimeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Millis(kMaxConnectionAge));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Millis(kMaxConnectionAgeGrace));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(kKeepaliveInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Millis(kShortestPingInterval));
}

// host of "host:port", brackets of an IPv6 address included.
absl::StatusOr<absl::string_view> HostOf(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("an address is host:port, such as 127.0.0.1:50051; this is not: ", address));
  }
  return address.substr(0, colon);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const std::string& address,
                                                      grpc::Service* service) {
  const absl::StatusOr<absl::string_view> host = HostOf(address);
  if (!host.ok()) return host.status();
  // Debian builds Abseil with its search for deadlocks on. It would look at gRPC's locks alone,
  // ours are not Abseil's, and took 4 % of the process's time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": is the port taken, or not ours to open?"));
  }
  std::unique_ptr<Server> started(
      new Server(absl::StrCat(*host, ":", port), port, std::move(server)));
  started->SetServing(false);
  return started;
}

Server::Server(std::string address, int port, std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)), port_(port), server_(std::move(server)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

void Server::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kServiceName, serving);
}

void Server::StopServing() { server_->GetHealthCheckService()->Shutdown(); }

void Server::Shutdown(absl::Duration grace) {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
  server_->Wait();
}

}  // namespace idempotency
