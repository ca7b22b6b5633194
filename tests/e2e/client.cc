#include "tests/e2e/client.h"

#include <stdlib.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "server/rpc/translate.h"
#include "tests/rpc/error_details.h"

namespace idempotency {
namespace {

// gRPC's blocking clients look at an idle connection only this often, every five seconds unless
// told otherwise before gRPC starts; until then a server that shuts down waits for them.
[[maybe_unused]] const int kPollsOften =
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "50", /*overwrite=*/0);

// `call` is given the context and the response.
template <typename Response, typename Call>
Called<Response> Run(const Call& call) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  Called<Response> called;
  called.status = call(&context, &called.response);
  called.reason = ReasonOf(called.status);
  return called;
}

}  // namespace

Client::Client(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A replica that comes back is found at once.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::IdempotencyService::NewStub(channel_);
}

Called<v1::BeginResponse> Client::Begin(const v1::BeginRequest& request) {
  return Run<v1::BeginResponse>([&](grpc::ClientContext* context, v1::BeginResponse* response) {
    return stub_->Begin(context, request, response);
  });
}

Called<v1::CompleteResponse> Client::Complete(const v1::CompleteRequest& request) {
  return Run<v1::CompleteResponse>(
      [&](grpc::ClientContext* context, v1::CompleteResponse* response) {
        return stub_->Complete(context, request, response);
      });
}

Called<v1::FailResponse> Client::Fail(const v1::FailRequest& request) {
  return Run<v1::FailResponse>([&](grpc::ClientContext* context, v1::FailResponse* response) {
    return stub_->Fail(context, request, response);
  });
}

Called<v1::RenewResponse> Client::Renew(const v1::RenewRequest& request) {
  return Run<v1::RenewResponse>([&](grpc::ClientContext* context, v1::RenewResponse* response) {
    return stub_->Renew(context, request, response);
  });
}

Called<v1::LookupResponse> Client::Lookup(const v1::LookupRequest& request) {
  return Run<v1::LookupResponse>([&](grpc::ClientContext* context, v1::LookupResponse* response) {
    return stub_->Lookup(context, request, response);
  });
}

bool Client::IsServing() {
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto called = Run<grpc::health::v1::HealthCheckResponse>(
      [&](grpc::ClientContext* context, grpc::health::v1::HealthCheckResponse* response) {
        return health->Check(context, grpc::health::v1::HealthCheckRequest(), response);
      });
  return called.ok() && called.response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

std::string AttemptId(absl::string_view name) { return absl::StrCat("attempt-of-a-test-", name); }

v1::BeginRequest BeginOf(absl::string_view key, absl::string_view attempt) {
  v1::BeginRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key(std::string(key));
  request.set_operation("POST /orders");
  request.set_attempt_id(AttemptId(attempt));
  request.mutable_payload()->set_content_type("application/json");
  request.mutable_payload()->set_data("{\"amount\":\"100.00\"}");
  return request;
}

v1::CompleteRequest CompleteOf(absl::string_view key, absl::string_view attempt,
                               absl::string_view body) {
  v1::CompleteRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key(std::string(key));
  request.set_attempt_id(AttemptId(attempt));
  request.mutable_outcome()->set_status_code(201);
  request.mutable_outcome()->set_body(std::string(body));
  return request;
}

v1::FailRequest FailOf(absl::string_view key, absl::string_view attempt,
                       v1::FailureDisposition disposition) {
  v1::FailRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key(std::string(key));
  request.set_attempt_id(AttemptId(attempt));
  request.mutable_failure()->set_disposition(disposition);
  return request;
}

v1::RenewRequest RenewOf(absl::string_view key, absl::string_view attempt) {
  v1::RenewRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key(std::string(key));
  request.set_attempt_id(AttemptId(attempt));
  return request;
}

v1::LookupRequest LookupOf(absl::string_view key) {
  v1::LookupRequest request;
  request.set_merchant_id("acme");
  request.set_idempotency_key(std::string(key));
  return request;
}

void SetDuration(google::protobuf::Duration* message, absl::Duration duration) {
  *message = ToProtoDuration(duration);
}

}  // namespace idempotency
