// The gRPC server: its limits, its health service and its end.
//
// What the options are for: a connection's age is bounded, so that clients spread over new
// replicas; one that does not speak HTTP/2 is dropped after the handshake timeout; messages over
// kMaxReceiveBytes are refused before they are read; compression is off, since a small message can
// decompress to a large one; gRPC's own memory for messages has a quota of 256 MiB, under whose
// pressure it reads more slowly, refuses streams and drops new connections (answers that are not
// taken are beside it: answer_room.h); a connection has at
// most kMaxConcurrentStreams calls under way, further ones wait with their client.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace idempotency {

// One connection's calls in flight. A client with more opens a second connection.
inline constexpr int kMaxConcurrentStreams = 2048;

// The service name under which health is reported, beside "" for the whole server.
inline constexpr char kServiceName[] = "idempotency.v1.IdempotencyService";

// Thread-safe, but for Shutdown, which is called by one thread.
class Server {
 public:
  // Listens on `address` (host:port; port 0: a free one) and serves `service`,
  // grpc.health.v1.Health and reflection. Health says NOT_SERVING until SetServing(true). `service`
  // must outlive the Server. kInvalidArgument when the address is malformed, kUnavailable when it
  // cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const std::string& address,
                                                       grpc::Service* service);
  // As Shutdown with no grace.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // host:port with the port that is really listened on.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  void SetServing(bool serving);
  // Health says NOT_SERVING from now on, whatever SetServing is told. Calls are served as before.
  void StopServing();
  // Takes no new connections and calls, gives those that run `grace` to end, cancels the rest, and
  // returns when all are answered. Idempotent.
  void Shutdown(absl::Duration grace);

 private:
  Server(std::string address, int port, std::unique_ptr<grpc::Server> server);

  const std::string address_;
  const int port_;
  const std::unique_ptr<grpc::Server> server_;
  bool is_shut_down_ = false;
};

}  // namespace idempotency
