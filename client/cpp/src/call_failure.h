// What a failed call means: the one place where gRPC's statuses and their details become errors.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/string_ref.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

struct CallFailure {
  Error error;
  // Whether the call may have changed the record although it failed.
  bool may_have_effect = true;
  // How long the server asks to be left alone, by its trailer or RetryInfo.
  std::optional<std::chrono::milliseconds> retry_after;
  // The trailer says not to repeat the call at all.
  bool must_not_retry = false;

  grpc::StatusCode code() const { return static_cast<grpc::StatusCode>(error.grpc_code); }
};

// REQUIRES: !status.ok(), and the call of `context` has ended.
CallFailure FailureOf(const grpc::Status& status, const grpc::ClientContext& context);

// The pause that the trailer grpc-retry-pushback-ms asks for. By gRPC's own rule all that is not
// one whole number of 0 to 2^31-1 milliseconds says not to repeat the call.
void ReadPushback(const std::multimap<grpc::string_ref, grpc::string_ref>& trailers,
                  CallFailure* failure);

// An error that no call came to.
Error MakeError(ErrorKind kind, std::string message);

// A call that only asks, or may be repeated under its attempt id: Begin, Lookup, Renew. True if a
// repeat may help. UNAUTHENTICATED is the caller's to judge: once, with fresh credentials.
bool IsWorthRepeating(const CallFailure& failure);

// The service's own word that it cannot work at present, and did nothing.
bool IsAwayReason(const std::string& reason);

// Complete or Fail: false if the service refused it and always will. UNAUTHENTICATED as above.
bool IsWorthRecordingAgain(const CallFailure& failure);

// Complete or Fail: refused for its size, so that it is to be recorded without its body.
bool IsTooLarge(const CallFailure& failure);

}  // namespace idempotency::client
