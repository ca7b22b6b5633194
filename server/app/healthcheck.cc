#include "server/app/healthcheck.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"

namespace idempotency {

absl::Status CheckHealth(const std::string& address, absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  // A probe asks the process beside it, whatever proxy the environment names for others.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  // The empty service name asks for the server as a whole.
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, {}, &response);
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat(address, ": ", status.error_message()));
  }
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      address, ": ", grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())));
}

}  // namespace idempotency
