// The two connections to the service, set up the way the service wants them.
//
// Keepalive finds dead connections within half a minute and stays within the server's ping limit
// (one in 10 s). Calls go round robin over all addresses of the name. gRPC's own retries are off,
// also those that DNS could turn on: this library repeats calls itself, because it knows which may
// be repeated how. Calls that wait for somebody else's outcome ride on a channel of their own, with
// connections of its own, so that they never hold up a Complete.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"

namespace idempotency::client {

struct ChannelOptions {
  // A gRPC name: "dns:///idempotency.payments.svc:50051". Without a scheme it is a DNS name, too.
  std::string target;
  // Required: grpc::SslCredentials(…), composed with call credentials where the service asks for a
  // token; grpc::InsecureChannelCredentials() only on a network that is trusted.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Between two keepalive pings. The server cuts clients off that ping more often than every 10 s;
  // less is raised to that.
  std::chrono::milliseconds keepalive_interval = std::chrono::seconds(20);
  // How long a ping may go unanswered before the connection counts as dead.
  std::chrono::milliseconds keepalive_timeout = std::chrono::seconds(10);
  // The longest pause between two tries to connect.
  std::chrono::milliseconds max_reconnect_backoff = std::chrono::seconds(5);
};

struct Channels {
  std::shared_ptr<grpc::Channel> calls;
  // For Begins with a wait_timeout.
  std::shared_ptr<grpc::Channel> waits;
};

// Connects lazily: a service that is away is found out by the first call. REQUIRES: credentials.
Channels MakeChannels(const ChannelOptions& options);

}  // namespace idempotency::client
