#include "server/app/event_log.h"

#include <string>
#include <variant>

#include "absl/strings/escaping.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

std::string RecordIdText(const RecordKey& key, absl::Time created_at) {
  return UuidText(RecordIdOf(key, created_at));
}

absl::string_view HowItEnded(const Record& record) {
  if (!record.previous_attempt.has_value() || !record.previous_attempt->failure.has_value()) {
    return "lease_over";
  }
  return record.previous_attempt->failure->disposition == Disposition::kUnknown ? "failed_unknown"
                                                                                : "failed";
}

absl::string_view ReasonOf(OwnerVerdict verdict) {
  switch (verdict) {
    case OwnerVerdict::kOutcomeConflict:
      return "OUTCOME_CONFLICT";
    case OwnerVerdict::kLeaseLost:
      return "LEASE_LOST";
    case OwnerVerdict::kRecordNotFound:
      return "RECORD_NOT_FOUND";
    default:
      return "REFUSED";
  }
}

}  // namespace

void EventLog::OnTakeover(const Record& record) {
  log_->Audit(LogLevel::kWarn, "takeover",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", RecordIdText(record.key, record.created_at)},
               {"operation", record.operation},
               {"attempt_number", record.attempt_number},
               {"unknown_attempts", record.unknown_attempts},
               {"fencing_token", record.fencing_token},
               {"previous_ended", HowItEnded(record)}});
}

void EventLog::OnResume(const Record& record) {
  log_->Audit(LogLevel::kWarn, "resume",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", RecordIdText(record.key, record.created_at)},
               {"operation", record.operation},
               {"attempt_number", record.attempt_number},
               {"unknown_attempts", record.unknown_attempts},
               {"fencing_token", record.fencing_token}});
}

void EventLog::OnRefusedOutcome(const OwnerItem& item, const OwnerResult& result) {
  if (item.answer == nullptr) return;
  const auto* outcome = std::get_if<Outcome>(item.answer.get());
  const auto* failure = std::get_if<Failure>(item.answer.get());
  if (failure != nullptr && failure->outcome.has_value()) outcome = &*failure->outcome;
  const ContentDigest digest = DigestOf(*item.answer);
  const std::string record_id =
      result.record == nullptr ? "" : RecordIdText(item.key, result.record->created_at);
  log_->Audit(
      LogLevel::kWarn, "refused_outcome",
      {{"merchant", item.key.merchant_id},
       {"key", item.key.idempotency_key},
       {"record_id", record_id},
       {"reason", ReasonOf(result.verdict)},
       {"kind", failure == nullptr ? "complete" : "fail"},
       {"status_code", outcome == nullptr ? 0 : outcome->status_code},
       {"response_id", outcome == nullptr ? std::string() : outcome->response_id},
       {"content_sha256", absl::BytesToHexString(absl::string_view(
                              reinterpret_cast<const char*>(digest.data()), digest.size()))},
       {"last_attempt_number", result.record == nullptr ? 0 : result.record->attempt_number}});
}

void EventLog::OnSwept(const SweptRecord& swept) { WriteSwept("swept", swept); }

void EventLog::OnPurgedUnsettled(const SweptRecord& purged) {
  WriteSwept("purged_unsettled", purged);
}

void EventLog::WriteSwept(absl::string_view event, const SweptRecord& swept) {
  log_->Audit(LogLevel::kWarn, event,
              {{"merchant", swept.key.merchant_id},
               {"key", swept.key.idempotency_key},
               {"record_id", RecordIdText(swept.key, swept.created_at)},
               {"attempt_number", swept.attempt_number}});
}

void EventLog::OnMaintenanceFailed(const absl::Status& status) {
  log_->Warn("maintenance_failed", {{"detail", status.message()}});
}

}  // namespace idempotency
