// A caller of the service, as short as a test wants it.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency {

// What a call came to. `reason` is ErrorInfo's, empty without one.
template <typename Response>
struct Called {
  grpc::Status status;
  std::string reason;
  Response response;
  bool ok() const { return status.ok(); }
};

// Thread-safe. Every call has a deadline of 30 s; none is repeated behind the caller's back.
class Client {
 public:
  // With a connection of its own.
  explicit Client(const std::string& address);

  Called<v1::BeginResponse> Begin(const v1::BeginRequest& request);
  Called<v1::CompleteResponse> Complete(const v1::CompleteRequest& request);
  Called<v1::FailResponse> Fail(const v1::FailRequest& request);
  Called<v1::RenewResponse> Renew(const v1::RenewRequest& request);
  Called<v1::LookupResponse> Lookup(const v1::LookupRequest& request);
  // As grpc.health.v1 says.
  bool IsServing();

  v1::IdempotencyService::Stub* stub() { return stub_.get(); }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

// Requests of merchant "acme". An attempt is named by a letter or a word, and made long enough
// here.
std::string AttemptId(absl::string_view name);
v1::BeginRequest BeginOf(absl::string_view key, absl::string_view attempt);
v1::CompleteRequest CompleteOf(absl::string_view key, absl::string_view attempt,
                               absl::string_view body = "done");
v1::FailRequest FailOf(absl::string_view key, absl::string_view attempt,
                       v1::FailureDisposition disposition);
v1::RenewRequest RenewOf(absl::string_view key, absl::string_view attempt);
v1::LookupRequest LookupOf(absl::string_view key);

void SetDuration(google::protobuf::Duration* message, absl::Duration duration);

}  // namespace idempotency
