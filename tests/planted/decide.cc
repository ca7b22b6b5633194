// Faults in what is decided about a row.
#include "server/record/decide.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "absl/time/time.h"
#include "tests/planted/planted.h"

namespace idempotency {

BeginDecision
RealDecideBegin(const Record* record, const BeginItem& item, const Reading& reading, const Policy& policy) asm(
    "__real__ZN11idempotency11DecideBeginEPKNS_6RecordERKNS_9BeginItemERKNS_7ReadingERKNS_"
    "6PolicyE");
BeginDecision
PlantedDecideBegin(const Record* record, const BeginItem& item, const Reading& reading, const Policy& policy) asm(
    "__wrap__ZN11idempotency11DecideBeginEPKNS_6RecordERKNS_9BeginItemERKNS_7ReadingERKNS_"
    "6PolicyE");

namespace {

bool IsInProgress(const Record& record) {
  return record.state == RecordState::kInProgress || record.state == RecordState::kSwept;
}

// The record as the fault sees it.
std::optional<Record> SeenWrongly(const Record& record, const BeginItem& item,
                                  const Reading& reading, const Policy& policy) {
  Record seen = record;
  if (planted::Is("expire-live-leases") && IsInProgress(record) && record.attempt != item.attempt) {
    seen.lease_expires_at = reading.now - policy.skew_margin - absl::Hours(1);
    return seen;
  }
  if (planted::Is("never-take-over") && IsInProgress(record) && record.attempt != item.attempt) {
    seen.lease_expires_at = reading.now + absl::Seconds(2);
    return seen;
  }
  if (planted::Is("restart-late-duplicate") &&
      RealDecideBegin(&record, item, reading, policy).verdict == BeginVerdict::kLeaseLost) {
    seen.earlier_attempts.clear();
    if (seen.attempt == item.attempt) seen.attempt = AttemptHash();
    return seen;
  }
  return std::nullopt;
}

void WriteWrongly(const Record& before, Record& next) {
  if (next.attempt_number <= before.attempt_number) return;
  if (planted::Is("forget-unknown")) next.unknown_attempts = 0;
  if (planted::Is("new-record-on-takeover")) next.created_at += absl::Milliseconds(1);
}

}  // namespace

BeginDecision PlantedDecideBegin(const Record* record, const BeginItem& item,
                                 const Reading& reading, const Policy& policy) {
  if (record == nullptr) return RealDecideBegin(record, item, reading, policy);
  const std::optional<Record> seen = SeenWrongly(*record, item, reading, policy);
  BeginDecision decision =
      RealDecideBegin(seen.has_value() ? &*seen : record, item, reading, policy);
  if (decision.next.has_value()) WriteWrongly(*record, *decision.next);
  return decision;
}

}  // namespace idempotency
