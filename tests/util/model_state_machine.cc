#include "tests/util/model_state_machine.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

// What the first column of the specification's tables calls a record. Exactly one holds.
enum class Condition {
  kNone,
  kExpired,    // settled, past its retention, not purged
  kFinal,      // live: completed, or failed FINAL
  kAtWork,     // in progress, lease not over
  kAbandoned,  // in progress and the lease is over, or failed UNKNOWN
  kReleased,   // live: failed NOT_APPLIED
};

enum class Caller { kLastAttempt, kEarlierAttempt, kStranger };

// The instants that the rules for a clock that jumped make of a record's: a lease has its whole
// duration again from the jump on.
absl::Time LeaseEnd(const Record& record, const Reading& reading) {
  const absl::Time anew = reading.last_jump_at + record.lease_duration;
  return anew > record.lease_expires_at ? anew : record.lease_expires_at;
}

// 10 minutes after a jump during which nothing expires; the tests' short windows shorten them.
bool ExpiryPauses(const Reading& reading, const Policy& policy) {
  absl::Duration pause = absl::Minutes(10);
  if (policy.replay_window < pause) pause = policy.replay_window;
  return !(reading.now > reading.last_jump_at + pause);
}

// The one predicate for all three of lease, retention and grace: an instant has passed when the
// clock shows a later one, after the margin. At equality it has not.
bool HasPassed(absl::Time instant, absl::Time now, const Policy& policy) {
  return now > instant + policy.skew_margin;
}

bool Settled(const Record& record) {
  switch (record.state) {
    case RecordState::kCompleted:
    case RecordState::kFailedFinal:
      return true;
    case RecordState::kReleased:
      return record.unknown_attempts == 0;
    case RecordState::kInProgress:
    case RecordState::kSwept:
    case RecordState::kFailedUnknown:
      return false;
  }
  IDEM_CHECK(false) << "a state the model does not know";
  return false;
}

Condition ConditionOf(const Record* record, const Reading& reading, const Policy& policy) {
  if (record == nullptr) return Condition::kNone;
  if (Settled(*record) && !ExpiryPauses(reading, policy)) {
    IDEM_CHECK(record->finished_at.has_value()) << "settled and never finished";
    const absl::Time retained_until =
        std::max(record->created_at + record->ttl, *record->finished_at + policy.replay_window);
    if (HasPassed(retained_until, reading.now, policy)) return Condition::kExpired;
  }
  switch (record->state) {
    case RecordState::kCompleted:
    case RecordState::kFailedFinal:
      return Condition::kFinal;
    case RecordState::kReleased:
      return Condition::kReleased;
    case RecordState::kFailedUnknown:
      return Condition::kAbandoned;
    // No answer depends on the sweeper's mark: the lease decides.
    case RecordState::kInProgress:
    case RecordState::kSwept:
      return HasPassed(LeaseEnd(*record, reading), reading.now, policy) ? Condition::kAbandoned
                                                                        : Condition::kAtWork;
  }
  IDEM_CHECK(false) << "a state the model does not know";
  return Condition::kNone;
}

Caller CallerOf(const Record* record, const AttemptHash& attempt) {
  if (record == nullptr) return Caller::kStranger;
  if (record->attempt == attempt) return Caller::kLastAttempt;
  const auto& earlier = record->earlier_attempts;
  return std::find(earlier.begin(), earlier.end(), attempt) == earlier.end()
             ? Caller::kStranger
             : Caller::kEarlierAttempt;
}

absl::Time WindowEnd(const Record& record, const Policy& policy) {
  return record.created_at + policy.takeover_window;
}

// Past the takeover window, or so near its end that the shortest lease does not fit.
bool PastWindow(const Record& record, absl::Time now, const Policy& policy) {
  return WindowEnd(record, policy) - now < policy.shortest_lease;
}

// What is granted of the lease that was asked for: once there are unknown attempts, no lease
// reaches past the window's end.
absl::Duration Granted(const Record& record, absl::Time now, absl::Duration asked,
                       const Policy& policy) {
  if (record.unknown_attempts == 0) return asked;
  return std::min(asked, WindowEnd(record, policy) - now);
}

// A lease's duration is kept in whole milliseconds; a granted rest of the window is not whole.
absl::Duration WholeMillis(absl::Duration lease) {
  return absl::Ceil(lease, absl::Milliseconds(1));
}

// The clock, made whole where it was set back.
int64_t NextToken(int64_t old_token, const Reading& reading) {
  return std::max(old_token + 1, absl::ToUnixMicros(reading.now) + reading.token_offset_us);
}

// `expired` is the record whose row the new one takes; null if there was no row.
Record FirstAttempt(const Record* expired, const BeginItem& item, const Reading& reading) {
  const absl::Time now = reading.now;
  Record row;
  row.key = item.key;
  row.operation = item.operation;
  row.fingerprint = item.fingerprint;
  row.fingerprint_scheme = item.fingerprint_scheme;
  row.labels = item.labels;
  row.created_at =
      expired == nullptr ? now : std::max(now, expired->created_at + absl::Microseconds(1));
  row.ttl = item.ttl;
  row.hold = item.hold;
  row.attempt = item.attempt;
  row.fencing_token = NextToken(expired == nullptr ? 0 : expired->fencing_token, reading);
  row.started_at = row.created_at;
  row.lease_expires_at = now + item.lease_duration;
  row.lease_duration = item.lease_duration;
  return row;
}

// The attempt after one that was abandoned or released.
Record NextAttempt(const Record& record, bool abandoned, const BeginItem& item,
                   const Reading& reading, const Policy& policy) {
  const absl::Time now = reading.now;
  Record row = record;
  PreviousAttempt previous;
  previous.attempt_number = record.attempt_number;
  previous.started_at = record.started_at;
  previous.lease_expires_at = record.lease_expires_at;
  if (record.answer != nullptr) previous.failure = std::get<Failure>(*record.answer);
  row.previous_attempt = std::move(previous);

  row.earlier_attempts.push_back(record.attempt);
  if (row.earlier_attempts.size() > kEarlierAttempts) {
    row.earlier_attempts.erase(row.earlier_attempts.begin());
  }
  if (abandoned) ++row.unknown_attempts;
  row.hold = record.hold || item.hold;
  row.state = RecordState::kInProgress;
  row.attempt = item.attempt;
  row.attempt_number = record.attempt_number + 1;
  row.fencing_token = NextToken(record.fencing_token, reading);
  row.started_at = now;
  const absl::Duration lease = Granted(row, now, item.lease_duration, policy);
  row.lease_expires_at = now + lease;
  row.lease_duration = WholeMillis(lease);
  row.finished_at = std::nullopt;
  row.answer = nullptr;
  return row;
}

// The same attempt goes on after its lease was over. Start time, number, token and
// previous_attempt stay as they were told at the start.
Record ResumedAttempt(const Record& record, const BeginItem& item, absl::Time now,
                      const Policy& policy) {
  Record row = record;
  ++row.unknown_attempts;
  row.hold = record.hold || item.hold;
  row.state = RecordState::kInProgress;
  const absl::Duration lease = Granted(row, now, item.lease_duration, policy);
  row.lease_expires_at = now + lease;
  row.lease_duration = WholeMillis(lease);
  return row;
}

ModelOwner Renew(const Record& record, const OwnerItem& item, absl::Time now,
                 const Policy& policy) {
  if (record.state == RecordState::kFailedUnknown) return {OwnerVerdict::kLeaseLost};
  if (record.state != RecordState::kInProgress && record.state != RecordState::kSwept) {
    return {OwnerVerdict::kAlreadyFinished};
  }
  // The specification says both that a Renew near the window's end gets what is left and that less
  // than the shortest lease left is NEEDS_RESOLUTION. docs/adr/0004: the first for a lease that
  // still runs, which keeps what it has; the second for one that has ended.
  const bool runs = record.lease_expires_at > now;
  if (record.unknown_attempts > 0 && !runs && PastWindow(record, now, policy)) {
    return {OwnerVerdict::kNeedsResolution};
  }
  Record row = record;
  row.state = RecordState::kInProgress;
  const absl::Duration lease = Granted(record, now, item.lease_duration, policy);
  // It extends and never shortens.
  if (now + lease > record.lease_expires_at) row.lease_expires_at = now + lease;
  row.lease_duration = std::max(record.lease_duration, WholeMillis(lease));
  return {OwnerVerdict::kRenewed, std::move(row)};
}

ModelOwner Finish(const Record& record, const OwnerItem& item, absl::Time now) {
  const RecordState after = StateAfter(*item.answer);
  const bool same_content =
      record.answer != nullptr && DigestOf(*record.answer) == DigestOf(*item.answer);
  switch (record.state) {
    case RecordState::kCompleted:
    case RecordState::kFailedFinal:
    case RecordState::kReleased:
      return {same_content ? OwnerVerdict::kAlreadyRecorded : OwnerVerdict::kOutcomeConflict};
    case RecordState::kFailedUnknown:
      if (same_content) return {OwnerVerdict::kAlreadyRecorded};
      break;
    case RecordState::kInProgress:
    case RecordState::kSwept:
      break;
  }
  Record row = record;
  row.state = after;
  row.finished_at = now;
  row.answer = item.answer;
  // UNKNOWN ends the lease now, if it has not ended by itself.
  if (after == RecordState::kFailedUnknown) {
    row.lease_expires_at = std::min(record.lease_expires_at, now);
  }
  return {OwnerVerdict::kRecorded, std::move(row)};
}

// Half of the skew margin, at most a second. Margins below half a second are for tests.
absl::Duration LongestGap(const Policy& policy) {
  if (policy.skew_margin < absl::Milliseconds(500)) return absl::Seconds(1);
  return std::min(policy.skew_margin / 2, absl::Seconds(1));
}

}  // namespace

Reading ModelReading(const ClockGuard& guard, absl::Time now, bool is_same_history,
                     const Policy& policy) {
  const ClockGuard known = ModelRefresh(guard, now, is_same_history, false, policy).guard;
  return {now, known.last_jump_at, known.token_offset_us};
}

ModelRefreshed ModelRefresh(const ClockGuard& guard, absl::Time now, bool is_same_history,
                            bool saw_drift, const Policy& policy) {
  ModelRefreshed refreshed = {guard, std::nullopt};
  const absl::Duration gap = now - guard.reading;
  if (saw_drift) refreshed.jump = ClockJump::kDrift;
  if (gap > LongestGap(policy)) refreshed.jump = ClockJump::kGap;
  if (gap < absl::ZeroDuration()) refreshed.jump = ClockJump::kRanBack;
  if (!is_same_history) refreshed.jump = ClockJump::kOtherHistory;
  if (gap < absl::ZeroDuration()) {
    refreshed.guard.token_offset_us += absl::ToInt64Microseconds(-gap);
  }
  if (refreshed.jump.has_value()) refreshed.guard.last_jump_at = now;
  refreshed.guard.reading = now;
  return refreshed;
}

ModelBegin ModelDecideBegin(const Record* record, const BeginItem& item, const Reading& reading,
                            const Policy& policy) {
  const Condition condition = ConditionOf(record, reading, policy);
  const Caller caller = CallerOf(record, item.attempt);
  const bool live = condition != Condition::kNone && condition != Condition::kExpired;

  if (live && (record->operation != item.operation || record->fingerprint != item.fingerprint)) {
    return {BeginVerdict::kKeyReused};
  }
  if (condition == Condition::kFinal) return {BeginVerdict::kReplay};
  if (caller == Caller::kEarlierAttempt ||
      (caller == Caller::kLastAttempt &&
       (condition == Condition::kReleased || condition == Condition::kExpired))) {
    return {BeginVerdict::kLeaseLost};
  }
  switch (condition) {
    case Condition::kNone:
    case Condition::kExpired:
      return {BeginVerdict::kStarted, false, FirstAttempt(record, item, reading)};
    case Condition::kAtWork:
      if (caller == Caller::kLastAttempt) return {BeginVerdict::kStarted, true};
      return {BeginVerdict::kInProgress};
    case Condition::kAbandoned:
      if (record->hold || PastWindow(*record, reading.now, policy)) {
        return {BeginVerdict::kNeedsResolution};
      }
      if (caller == Caller::kLastAttempt) {
        if (record->state == RecordState::kFailedUnknown) return {BeginVerdict::kLeaseLost};
        return {BeginVerdict::kStarted, true, ResumedAttempt(*record, item, reading.now, policy)};
      }
      return {BeginVerdict::kStarted, false, NextAttempt(*record, true, item, reading, policy)};
    case Condition::kReleased:
      if (record->unknown_attempts > 0 && PastWindow(*record, reading.now, policy)) {
        return {BeginVerdict::kNeedsResolution};
      }
      return {BeginVerdict::kStarted, false, NextAttempt(*record, false, item, reading, policy)};
    case Condition::kFinal:
      break;
  }
  IDEM_CHECK(false) << "a final record was answered above";
  return {BeginVerdict::kReplay};
}

ModelOwner ModelDecideOwner(const Record* record, const OwnerItem& item, const Reading& reading,
                            const Policy& policy) {
  if (record == nullptr) return {OwnerVerdict::kRecordNotFound};
  if (CallerOf(record, item.attempt) != Caller::kLastAttempt) return {OwnerVerdict::kLeaseLost};
  return item.IsRenew() ? Renew(*record, item, reading.now, policy)
                        : Finish(*record, item, reading.now);
}

std::optional<Record> ModelKeepRefused(const Record* record, const OwnerItem& item,
                                       absl::Time now) {
  const Caller caller = CallerOf(record, item.attempt);
  if (caller == Caller::kStranger) return std::nullopt;
  if (record->refused_outcome.has_value() &&
      now < record->refused_outcome->refused_at + kRefusedOutcomeInterval) {
    return std::nullopt;
  }
  RefusedOutcome refused;
  const Outcome* outcome = std::get_if<Outcome>(item.answer.get());
  if (outcome == nullptr) {
    const auto& in_failure = std::get<Failure>(*item.answer).outcome;
    if (in_failure.has_value()) outcome = &*in_failure;
  }
  if (outcome != nullptr) {
    refused.status_code = outcome->status_code;
    refused.response_id = outcome->response_id;
  }
  refused.content_digest = DigestOf(*item.answer);
  refused.refused_at = now;
  refused.attempt_number = record->attempt_number;
  if (caller == Caller::kEarlierAttempt) {
    // The last of the earlier attempts is the one before the present one.
    const auto& earlier = record->earlier_attempts;
    const auto after = earlier.end() - std::find(earlier.begin(), earlier.end(), item.attempt);
    refused.attempt_number -= static_cast<int32_t>(after);
  }
  Record row = *record;
  row.refused_outcome = std::move(refused);
  return row;
}

bool ModelMaySweep(const Record& record, const Reading& reading, absl::Duration grace,
                   const Policy& policy) {
  return record.state == RecordState::kInProgress &&
         HasPassed(LeaseEnd(record, reading) + grace, reading.now, policy);
}

bool ModelMayPurge(const Record& record, const Reading& reading, const Policy& policy) {
  return ConditionOf(&record, reading, policy) == Condition::kExpired;
}

bool ModelMayPurgeUnsettled(const Record& record, const Reading& reading, absl::Duration max_age,
                            const Policy& policy) {
  if (Settled(record) || record.hold || ExpiryPauses(reading, policy)) return false;
  if (ConditionOf(&record, reading, policy) == Condition::kAtWork) return false;
  // What was reported within the margin stays, so that the key's next token is higher.
  if (record.finished_at.has_value() && !HasPassed(*record.finished_at, reading.now, policy)) {
    return false;
  }
  return reading.now > record.created_at + max_age;
}

}  // namespace idempotency
