#include "idempotency/client/types.h"

#include "client/cpp/src/utf8.h"

namespace idempotency::client {
namespace {

constexpr size_t kMaxCodeBytes = 64;
constexpr size_t kMaxMessageBytes = 1024;

}  // namespace

WorkResult WorkResult::Failed(FailureDisposition disposition, const std::string& code,
                              const std::string& message, std::optional<Outcome> outcome) {
  return WorkResult(Failure{disposition, CleanText(code, kMaxCodeBytes),
                            CleanText(message, kMaxMessageBytes), std::move(outcome)});
}

const char* ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidField:
      return "InvalidField";
    case ErrorKind::kKeyReused:
      return "KeyReused";
    case ErrorKind::kLeaseLost:
      return "LeaseLost";
    case ErrorKind::kOutcomeConflict:
      return "OutcomeConflict";
    case ErrorKind::kNeedsResolution:
      return "NeedsResolution";
    case ErrorKind::kRecordNotFound:
      return "RecordNotFound";
    case ErrorKind::kUnauthenticated:
      return "Unauthenticated";
    case ErrorKind::kPermissionDenied:
      return "PermissionDenied";
    case ErrorKind::kRateLimited:
      return "RateLimited";
    case ErrorKind::kRequestTooLarge:
      return "RequestTooLarge";
    case ErrorKind::kUnavailable:
      return "Unavailable";
    case ErrorKind::kDeadlineExceeded:
      return "DeadlineExceeded";
    case ErrorKind::kCancelled:
      return "Cancelled";
    case ErrorKind::kOutcomeNotRecorded:
      return "OutcomeNotRecorded";
    case ErrorKind::kInternal:
      break;
  }
  return "Internal";
}

const Outcome* OutcomeOf(const RunResult& result) {
  if (const auto* completed = std::get_if<Completed>(&result)) return &completed->outcome;
  if (const auto* unprotected = std::get_if<Unprotected>(&result)) {
    return unprotected->work.outcome();
  }
  if (const auto* replayed = std::get_if<Replayed>(&result)) {
    return std::get_if<Outcome>(&replayed->answer);
  }
  return nullptr;
}

}  // namespace idempotency::client
