#include "client/cpp/src/call_failure.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/cpp/src/convert.h"
#include "idempotency/client/v1/status_details.pb.h"

namespace idempotency::client {
namespace {

constexpr char kDomain[] = "idempotency.v1";
constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";
constexpr uint64_t kLongestPushback = std::numeric_limits<int32_t>::max();

// nullopt: the code says more, INTERNAL, or says all there is, a reason that is not known.
std::optional<ErrorKind> KindOfReason(const std::string& reason) {
  static const auto* const kinds = new std::unordered_map<std::string, ErrorKind>{
      {"INVALID_FIELD", ErrorKind::kInvalidField},
      {"KEY_REUSED", ErrorKind::kKeyReused},
      {"LEASE_LOST", ErrorKind::kLeaseLost},
      {"OUTCOME_CONFLICT", ErrorKind::kOutcomeConflict},
      // Only Renew answers this. The attempt has nothing left to hold.
      {"ALREADY_FINISHED", ErrorKind::kLeaseLost},
      {"NEEDS_RESOLUTION", ErrorKind::kNeedsResolution},
      {"RECORD_NOT_FOUND", ErrorKind::kRecordNotFound},
      {"CREDENTIALS_MISSING", ErrorKind::kUnauthenticated},
      {"CREDENTIALS_INVALID", ErrorKind::kUnauthenticated},
      {"MERCHANT_FORBIDDEN", ErrorKind::kPermissionDenied},
      {"MERCHANT_RATE_LIMITED", ErrorKind::kRateLimited},
      {"OVERLOADED", ErrorKind::kUnavailable},
      {"DRAINING", ErrorKind::kUnavailable},
      {"STORE_UNAVAILABLE", ErrorKind::kUnavailable},
      {"SCHEMA_INCOMPATIBLE", ErrorKind::kUnavailable},
      {"COMMIT_UNKNOWN", ErrorKind::kUnavailable},
  };
  const auto found = kinds->find(reason);
  if (found == kinds->end()) return std::nullopt;
  return found->second;
}

// Without a reason, or with one that this client is too old for.
ErrorKind KindOfCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return ErrorKind::kInvalidField;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorKind::kRequestTooLarge;
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorKind::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return ErrorKind::kPermissionDenied;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:  // not by us: FailureOf's callers ask for that first
      return ErrorKind::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorKind::kDeadlineExceeded;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorKind::kRecordNotFound;
    case grpc::StatusCode::ABORTED:
      return ErrorKind::kLeaseLost;
    default:
      return ErrorKind::kInternal;
  }
}

// Fills reason, metadata, violations and retry_after. What cannot be read is left out: a proxy may
// have put anything there.
void ReadDetails(const std::string& bytes, CallFailure* failure) {
  v1::StatusDetails details;
  if (!details.ParseFromString(bytes)) return;
  for (const auto& any : details.details()) {
    const std::string_view url = any.type_url();
    const std::string_view type = url.substr(url.rfind('/') + 1);
    if (type == "google.rpc.ErrorInfo") {
      v1::ErrorInfo info;
      if (!info.ParseFromString(any.value()) || info.domain() != kDomain) continue;
      failure->error.reason = info.reason();
      for (const auto& [name, value] : info.metadata()) failure->error.metadata[name] = value;
    } else if (type == "google.rpc.RetryInfo") {
      v1::RetryInfo info;
      if (info.ParseFromString(any.value())) failure->retry_after = FromProto(info.retry_delay());
    } else if (type == "google.rpc.BadRequest") {
      v1::BadRequest bad_request;
      if (!bad_request.ParseFromString(any.value())) continue;
      for (const auto& violation : bad_request.field_violations()) {
        failure->error.violations.push_back({violation.field(), violation.description()});
      }
    }
  }
}

}  // namespace

void ReadPushback(const std::multimap<grpc::string_ref, grpc::string_ref>& trailers,
                  CallFailure* failure) {
  const auto count = trailers.count(kPushbackTrailer);
  if (count == 0) return;
  const grpc::string_ref value = trailers.find(kPushbackTrailer)->second;
  const char* const last = value.data() + value.size();
  // Without a sign, so that one is no digit.
  uint64_t millis = 0;
  const auto [end, fault] = std::from_chars(value.data(), last, millis);
  if (count > 1 || fault != std::errc() || end != last || millis > kLongestPushback) {
    failure->must_not_retry = true;
  } else {
    failure->retry_after = std::chrono::milliseconds(millis);
  }
}

Error MakeError(ErrorKind kind, std::string message) {
  Error error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

CallFailure FailureOf(const grpc::Status& status, const grpc::ClientContext& context) {
  CallFailure failure;
  failure.error.grpc_code = status.error_code();
  failure.error.message = status.error_message();
  ReadDetails(status.error_details(), &failure);
  ReadPushback(context.GetServerTrailingMetadata(), &failure);
  const std::string& reason = failure.error.reason;
  const std::optional<ErrorKind> kind = KindOfReason(reason);
  failure.error.kind = kind.value_or(KindOfCode(status.error_code()));
  failure.error.retry_after = failure.retry_after;
  // docs/errors.md, "Did it happen?". What a reason means that this client does not know, nobody
  // knows here.
  const bool is_refusal = kind.has_value() && reason != "COMMIT_UNKNOWN";
  const bool is_over_limit =
      reason.empty() && status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  failure.may_have_effect = !is_refusal && !is_over_limit;
  return failure;
}

bool IsWorthRepeating(const CallFailure& failure) {
  if (failure.must_not_retry) return false;
  return failure.code() == grpc::StatusCode::UNAVAILABLE ||
         failure.code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         failure.error.kind == ErrorKind::kRateLimited;
}

bool IsAwayReason(const std::string& reason) {
  return reason == "STORE_UNAVAILABLE" || reason == "OVERLOADED" || reason == "DRAINING";
}

bool IsWorthRecordingAgain(const CallFailure& failure) {
  switch (failure.code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::PERMISSION_DENIED:
      return false;
    default:
      return true;
  }
}

bool IsTooLarge(const CallFailure& failure) {
  if (failure.code() == grpc::StatusCode::RESOURCE_EXHAUSTED) return true;
  if (failure.code() != grpc::StatusCode::INVALID_ARGUMENT) return false;
  for (const FieldViolation& violation : failure.error.violations) {
    if (violation.field == "outcome.body" || violation.field == "failure.outcome.body") return true;
  }
  return false;
}

}  // namespace idempotency::client
