#include "server/rpc/errors.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/base/check.h"
#include "server/record/limit.h"
#include "server/record/record_id.h"
#include "server/rpc/translate.h"

namespace idempotency {
namespace {

using Metadata = std::map<std::string, std::string>;

// How long to stay away, before jitter. Guessed: a queue empties within milliseconds once its lane
// is free, a database comes back within seconds, a schema when somebody migrates it.
constexpr absl::Duration kOverloadedWait = absl::Milliseconds(250);
constexpr absl::Duration kStoreWait = absl::Seconds(1);
constexpr absl::Duration kSchemaWait = absl::Seconds(10);

grpc::Status WithDetails(grpc::StatusCode code, const std::string& message,
                         google::rpc::Status details) {
  details.set_code(static_cast<int32_t>(code));
  details.set_message(message);
  return grpc::Status(code, message, details.SerializeAsString());
}

CallError MakeError(grpc::StatusCode code, v1::ErrorReason reason, const std::string& message,
                    const Metadata& metadata = {},
                    std::optional<absl::Duration> retry_after = std::nullopt) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(reason)));
  info.set_domain(kErrorDomain);
  for (const auto& [name, value] : metadata) (*info.mutable_metadata())[name] = value;
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  if (retry_after.has_value()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToProtoDuration(*retry_after);
    details.add_details()->PackFrom(retry);
  }
  return {WithDetails(code, message, std::move(details)), retry_after, ReasonName(reason)};
}

CallError NeedsResolution() {
  return MakeError(grpc::StatusCode::FAILED_PRECONDITION, v1::ERROR_REASON_NEEDS_RESOLUTION,
                   "an attempt ended without a known result and nobody may start another: only its "
                   "own late Complete or Fail can settle the record, and not even that when the "
                   "attempt after it has released the record and the takeover window is over. Do "
                   "not use another key: money may have moved");
}

}  // namespace

absl::string_view ReasonName(v1::ErrorReason reason) {
  return absl::StripPrefix(absl::string_view(v1::ErrorReason_Name(reason)), "ERROR_REASON_");
}

CallError InvalidFields(const Violations& violations) {
  IDEM_CHECK(!violations.empty()) << "nothing is invalid";
  const FieldViolation& first = violations.list().front();
  std::string message = absl::StrCat(first.field, ": ", first.description);
  if (violations.list().size() > 1) {
    absl::StrAppend(&message, " (and ", violations.list().size() - 1, " more)");
  }
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(ReasonName(v1::ERROR_REASON_INVALID_FIELD)));
  info.set_domain(kErrorDomain);
  google::rpc::BadRequest bad_request;
  // The message stands in the details, too; 256 covers the frames around the parts.
  size_t bytes = info.ByteSizeLong() + message.size() + 256;
  for (const FieldViolation& violation : violations.list()) {
    google::rpc::BadRequest::FieldViolation added;
    added.set_field(violation.field);
    added.set_description(violation.description);
    // 4: the tag and the length of a nested message this small.
    bytes += added.ByteSizeLong() + 4;
    if (bytes >= kMaxErrorDetailBytes) break;
    *bad_request.add_field_violations() = std::move(added);
  }
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  details.add_details()->PackFrom(bad_request);
  return {WithDetails(grpc::StatusCode::INVALID_ARGUMENT, message, std::move(details)),
          std::nullopt, ReasonName(v1::ERROR_REASON_INVALID_FIELD)};
}

CallError UnparsableMessage() {
  Violations violations;
  violations.Add(kWholeMessage,
                 "must be a message of this method by idempotency/v1, with every string in UTF-8");
  return InvalidFields(violations);
}

CallError BeginRefused(const BeginResult& result, int32_t given_fingerprint_scheme,
                       const Policy& policy) {
  switch (result.verdict) {
    case BeginVerdict::kKeyReused: {
      const Record& record = *result.record;
      const std::string state = v1::RecordState_Name(VisibleState(record, result.reading, policy));
      return MakeError(
          grpc::StatusCode::FAILED_PRECONDITION, v1::ERROR_REASON_KEY_REUSED,
          "this idempotency key was first used with another operation or another body; a new "
          "request needs a new key",
          {{"record_id", RecordIdText(record)},
           {"state", std::string(absl::StripPrefix(state, "RECORD_STATE_"))},
           {"create_time",
            absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", record.created_at, absl::UTCTimeZone())},
           {"stored_fingerprint_scheme", absl::StrCat(record.fingerprint_scheme)},
           {"given_fingerprint_scheme", absl::StrCat(given_fingerprint_scheme)}});
    }
    case BeginVerdict::kLeaseLost:
      return MakeError(grpc::StatusCode::ABORTED, v1::ERROR_REASON_LEASE_LOST,
                       "this attempt is over: do no more work under it; a new try uses a new "
                       "attempt_id");
    case BeginVerdict::kNeedsResolution:
      return NeedsResolution();
    case BeginVerdict::kStarted:
    case BeginVerdict::kReplay:
    case BeginVerdict::kInProgress:
      break;
  }
  IDEM_CHECK(false) << "an answer is no refusal";
  return {};
}

CallError OwnerRefused(OwnerVerdict verdict) {
  switch (verdict) {
    case OwnerVerdict::kAlreadyFinished:
      return MakeError(grpc::StatusCode::FAILED_PRECONDITION, v1::ERROR_REASON_ALREADY_FINISHED,
                       "this attempt has already recorded how it ended: there is no lease to "
                       "renew");
    case OwnerVerdict::kOutcomeConflict:
      return MakeError(grpc::StatusCode::FAILED_PRECONDITION, v1::ERROR_REASON_OUTCOME_CONFLICT,
                       "this attempt already recorded other content, and the first stays; Lookup "
                       "shows it");
    case OwnerVerdict::kLeaseLost:
      return MakeError(grpc::StatusCode::ABORTED, v1::ERROR_REASON_LEASE_LOST,
                       "this attempt does not hold the record, or is over: do no more work under "
                       "it; Lookup shows what is recorded");
    case OwnerVerdict::kRecordNotFound:
      return RecordNotFound();
    case OwnerVerdict::kNeedsResolution:
      return NeedsResolution();
    case OwnerVerdict::kRecorded:
    case OwnerVerdict::kAlreadyRecorded:
    case OwnerVerdict::kRenewed:
      break;
  }
  IDEM_CHECK(false) << "an answer is no refusal";
  return {};
}

CallError RecordNotFound() {
  return MakeError(grpc::StatusCode::NOT_FOUND, v1::ERROR_REASON_RECORD_NOT_FOUND,
                   "there is no record for this merchant and key: it never was, or it was purged "
                   "after its retention");
}

CallError CredentialsMissing() {
  return MakeError(grpc::StatusCode::UNAUTHENTICATED, v1::ERROR_REASON_CREDENTIALS_MISSING,
                   "the call carried no credentials");
}

CallError CredentialsInvalid() {
  return MakeError(grpc::StatusCode::UNAUTHENTICATED, v1::ERROR_REASON_CREDENTIALS_INVALID,
                   "the credentials are malformed, unknown, expired or revoked");
}

CallError MerchantForbidden() {
  return MakeError(grpc::StatusCode::PERMISSION_DENIED, v1::ERROR_REASON_MERCHANT_FORBIDDEN,
                   "this caller may not do this for this merchant");
}

absl::Duration Jittered(absl::Duration span) {
  thread_local absl::InsecureBitGen random;
  const absl::Duration shortest =
      std::max(absl::Ceil(span, absl::Milliseconds(1)), absl::Milliseconds(1));
  return shortest + absl::Milliseconds(absl::Uniform<int64_t>(absl::IntervalClosed, random, 0,
                                                              absl::ToInt64Milliseconds(shortest)));
}

CallError MerchantHasTooManyCalls() {
  return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, v1::ERROR_REASON_MERCHANT_RATE_LIMITED,
                   "the merchant has too many calls in flight; nothing was done. Wait and repeat "
                   "the same call",
                   {}, Jittered(kOverloadedWait));
}

CallError MerchantRateLimited(absl::Duration retry_after) {
  return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, v1::ERROR_REASON_MERCHANT_RATE_LIMITED,
                   "the merchant is over its rate; nothing was done. Wait and repeat the same call",
                   {}, retry_after);
}

CallError FaultError(Fault fault, absl::string_view request_id) {
  switch (fault) {
    case Fault::kStoreUnavailable:
    case Fault::kNotDurable:
    case Fault::kLockTimeout:
      return MakeError(grpc::StatusCode::UNAVAILABLE, v1::ERROR_REASON_STORE_UNAVAILABLE,
                       "the database does not answer or another transaction holds the row; nothing "
                       "was done. Wait and repeat the same call",
                       {}, Jittered(kStoreWait));
    case Fault::kSchemaIncompatible:
      return MakeError(grpc::StatusCode::UNAVAILABLE, v1::ERROR_REASON_SCHEMA_INCOMPATIBLE,
                       "the database's schema does not fit this server; nothing was done. An "
                       "operator has to migrate the schema or roll the server",
                       {}, Jittered(kSchemaWait));
    case Fault::kOverloaded:
    case Fault::kNotRead:
      return MakeError(grpc::StatusCode::UNAVAILABLE, v1::ERROR_REASON_OVERLOADED,
                       "the server is full; nothing was done. Wait and repeat the same call", {},
                       Jittered(kOverloadedWait));
    case Fault::kDraining:
      return MakeError(grpc::StatusCode::UNAVAILABLE, v1::ERROR_REASON_DRAINING,
                       "this replica is shutting down; nothing was done. Repeat the same call: "
                       "another replica answers");
    case Fault::kCommitUnknown:
      return MakeError(grpc::StatusCode::UNAVAILABLE, v1::ERROR_REASON_COMMIT_UNKNOWN,
                       "the commit's answer was lost, so the effect is unknown. Repeat the same "
                       "call: same RPC, content and attempt_id");
    case Fault::kDeadlineExceeded:
      return {grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                           "the deadline passed; the effect is unknown. Repeat the same call: "
                           "same RPC, content and attempt_id"),
              std::nullopt, ""};
    case Fault::kCancelled:
      return {grpc::Status(grpc::StatusCode::CANCELLED, "the caller left"), std::nullopt, ""};
    case Fault::kInternal:
      break;
  }
  return MakeError(
      grpc::StatusCode::INTERNAL, v1::ERROR_REASON_INTERNAL,
      absl::StrCat("a fault in the server; the effect is unknown. Request id: ", request_id));
}

}  // namespace idempotency
