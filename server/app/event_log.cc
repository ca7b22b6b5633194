#include "server/app/event_log.h"

#include <string>
#include <variant>

#include "absl/strings/escaping.h"
#include "server/record/fault.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

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

// What a line says of an answer, instead of its content.
struct Evidence {
  absl::string_view kind;
  int32_t status_code = 0;
  std::string response_id;
  std::string content_sha256;
};

Evidence EvidenceOf(const Answer& answer) {
  Evidence evidence;
  const auto* outcome = std::get_if<Outcome>(&answer);
  evidence.kind = outcome == nullptr ? "fail" : "complete";
  const auto* failure = std::get_if<Failure>(&answer);
  if (failure != nullptr && failure->outcome.has_value()) outcome = &*failure->outcome;
  if (outcome != nullptr) {
    evidence.status_code = outcome->status_code;
    evidence.response_id = outcome->response_id;
  }
  const ContentDigest digest = DigestOf(answer);
  evidence.content_sha256 = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
  return evidence;
}

}  // namespace

void EventLog::OnTakeover(const Record& record, const TraceId& trace) {
  log_->Audit(LogLevel::kWarn, "takeover",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", RecordIdText(record.key, record.created_at)},
               {"operation", record.operation},
               {"attempt_number", record.attempt_number},
               {"unknown_attempts", record.unknown_attempts},
               {"fencing_token", record.fencing_token},
               {"previous_ended", HowItEnded(record)},
               LogField::IfAny("trace_id", trace.text())});
}

void EventLog::OnResume(const Record& record, const TraceId& trace) {
  log_->Audit(LogLevel::kWarn, "resume",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", RecordIdText(record.key, record.created_at)},
               {"operation", record.operation},
               {"attempt_number", record.attempt_number},
               {"unknown_attempts", record.unknown_attempts},
               {"fencing_token", record.fencing_token},
               LogField::IfAny("trace_id", trace.text())});
}

void EventLog::OnRefusedOutcome(const OwnerItem& item, const OwnerResult& result,
                                const TraceId& trace) {
  const Evidence evidence = EvidenceOf(*item.answer);
  const std::string record_id =
      result.record == nullptr ? "" : RecordIdText(item.key, result.record->created_at);
  log_->Audit(
      LogLevel::kWarn, "refused_outcome",
      {{"merchant", item.key.merchant_id},
       {"key", item.key.idempotency_key},
       {"record_id", record_id},
       {"reason", ReasonOf(result.verdict)},
       {"kind", evidence.kind},
       {"status_code", evidence.status_code},
       {"response_id", evidence.response_id},
       {"content_sha256", evidence.content_sha256},
       {"last_attempt_number", result.record == nullptr ? 0 : result.record->attempt_number},
       LogField::IfAny("trace_id", trace.text())});
}

void EventLog::OnGivenUp(const OwnerItem& item, const absl::Status& why, const TraceId& trace) {
  const Evidence evidence = EvidenceOf(*item.answer);
  log_->Audit(LogLevel::kError, "given_up",
              {{"merchant", item.key.merchant_id},
               {"key", item.key.idempotency_key},
               {"kind", evidence.kind},
               {"status_code", evidence.status_code},
               {"response_id", evidence.response_id},
               {"content_sha256", evidence.content_sha256},
               {"effect_unknown", FaultOf(why) == Fault::kCommitUnknown},
               {"detail", why.message()},
               LogField::IfAny("trace_id", trace.text())});
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
