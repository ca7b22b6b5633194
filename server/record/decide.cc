#include "server/record/decide.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

bool IsSameRequest(const Record& record, const BeginItem& item) {
  return record.operation == item.operation && record.fingerprint == item.fingerprint;
}

bool IsEarlierAttempt(const Record& record, const AttemptHash& attempt) {
  return std::find(record.earlier_attempts.begin(), record.earlier_attempts.end(), attempt) !=
         record.earlier_attempts.end();
}

absl::Duration TakeoverWindowLeft(const Record& record, absl::Time now, const Policy& policy) {
  return record.created_at + policy.takeover_window - now;
}

bool IsPastTakeoverWindow(const Record& record, absl::Time now, const Policy& policy) {
  return TakeoverWindowLeft(record, now, policy) < policy.shortest_lease;
}

// Tokens only grow for a key, and follow the clock, which the guard keeps from running back, so
// that they keep growing when a purged key is begun anew.
int64_t NextToken(int64_t last_token, const Reading& reading) {
  return std::max(last_token + 1, absl::ToUnixMicros(reading.now) + reading.token_offset_us);
}

// Once an attempt ended unknown no lease reaches past the takeover window: what is left is granted.
// Rounded up to the milliseconds that are stored; lease_expires_at stays exact.
void GrantLease(Record& record, absl::Duration asked, absl::Time now, const Policy& policy) {
  absl::Duration granted = asked;
  if (record.unknown_attempts > 0) {
    granted = std::min(asked, TakeoverWindowLeft(record, now, policy));
  }
  record.lease_expires_at = now + granted;
  record.lease_duration = absl::Ceil(granted, absl::Milliseconds(1));
}

Record FreshRecord(const Record* expired, const BeginItem& item, const Reading& reading,
                   const Policy& policy) {
  const absl::Time now = reading.now;
  Record fresh;
  fresh.key = item.key;
  fresh.operation = item.operation;
  fresh.fingerprint = item.fingerprint;
  fresh.fingerprint_scheme = item.fingerprint_scheme;
  fresh.labels = item.labels;
  // Strictly after the expired record's, whatever the clock did: the record id is derived from it.
  fresh.created_at =
      expired == nullptr ? now : std::max(now, expired->created_at + absl::Microseconds(1));
  fresh.ttl = item.ttl;
  fresh.hold = item.hold;
  fresh.state = RecordState::kInProgress;
  fresh.attempt = item.attempt;
  fresh.attempt_number = 1;
  fresh.fencing_token = NextToken(expired == nullptr ? 0 : expired->fencing_token, reading);
  fresh.started_at = fresh.created_at;
  GrantLease(fresh, item.lease_duration, now, policy);
  return fresh;
}

PreviousAttempt AsPreviousAttempt(const Record& record) {
  PreviousAttempt previous;
  previous.attempt_number = record.attempt_number;
  previous.started_at = record.started_at;
  previous.lease_expires_at = record.lease_expires_at;
  if (record.answer != nullptr) {
    // Only a Failure leads to an attempt that another one follows.
    if (const auto* failure = std::get_if<Failure>(record.answer.get())) {
      previous.failure = *failure;
    }
  }
  return previous;
}

void ClearAnswer(Record& record) {
  record.state = RecordState::kInProgress;
  record.finished_at.reset();
  record.answer.reset();
}

// The attempt that follows a released or an abandoned one.
Record NextAttempt(const Record& record, const BeginItem& item, const Reading& reading,
                   const Policy& policy) {
  Record next = record;
  next.previous_attempt = AsPreviousAttempt(record);
  if (record.state != RecordState::kReleased) ++next.unknown_attempts;
  next.earlier_attempts.push_back(record.attempt);
  if (next.earlier_attempts.size() > kEarlierAttempts) {
    next.earlier_attempts.erase(next.earlier_attempts.begin());
  }
  ClearAnswer(next);
  next.hold = record.hold || item.hold;
  next.attempt = item.attempt;
  ++next.attempt_number;
  next.fencing_token = NextToken(record.fencing_token, reading);
  next.started_at = reading.now;
  GrantLease(next, item.lease_duration, reading.now, policy);
  return next;
}

// The same attempt, whose lease was over: nobody knows what it did meanwhile, so it counts as
// unknown.
Record ResumedAttempt(const Record& record, const BeginItem& item, absl::Time now,
                      const Policy& policy) {
  Record next = record;
  ++next.unknown_attempts;
  ClearAnswer(next);
  next.hold = record.hold || item.hold;
  GrantLease(next, item.lease_duration, now, policy);
  return next;
}

BeginDecision Started(Record next, bool repeated) {
  return {.verdict = BeginVerdict::kStarted, .repeated = repeated, .next = std::move(next)};
}

BeginDecision DecideBeginOfAbandoned(const Record& record, const BeginItem& item,
                                     const Reading& reading, const Policy& policy) {
  const bool is_last = record.attempt == item.attempt;
  if (record.hold || IsPastTakeoverWindow(record, reading.now, policy)) {
    return {.verdict = BeginVerdict::kNeedsResolution};
  }
  if (is_last && record.state == RecordState::kFailedUnknown) {
    return {.verdict = BeginVerdict::kLeaseLost};
  }
  if (is_last) return Started(ResumedAttempt(record, item, reading.now, policy), true);
  return Started(NextAttempt(record, item, reading, policy), false);
}

OwnerDecision DecideRenew(const Record& record, const OwnerItem& item, absl::Time now,
                          const Policy& policy) {
  if (IsFinal(record.state) || record.state == RecordState::kReleased) {
    return {.verdict = OwnerVerdict::kAlreadyFinished};
  }
  if (record.state == RecordState::kFailedUnknown) return {.verdict = OwnerVerdict::kLeaseLost};
  // A lease that still runs keeps what it has (docs/adr/0004); one that has ended needs room for a
  // new one.
  if (record.unknown_attempts > 0 && record.lease_expires_at <= now &&
      IsPastTakeoverWindow(record, now, policy)) {
    return {.verdict = OwnerVerdict::kNeedsResolution};
  }
  Record next = record;
  GrantLease(next, item.lease_duration, now, policy);
  next.lease_expires_at = std::max(next.lease_expires_at, record.lease_expires_at);
  next.lease_duration = std::max(next.lease_duration, record.lease_duration);
  next.state = RecordState::kInProgress;
  return {.verdict = OwnerVerdict::kRenewed, .next = std::move(next)};
}

OwnerDecision DecideFinish(const Record& record, const OwnerItem& item, absl::Time now) {
  const RecordState reached = StateAfter(*item.answer);
  const bool is_unfinished = record.answer == nullptr;
  const bool is_same = !is_unfinished && DigestOf(*record.answer) == DigestOf(*item.answer);
  if (record.state == RecordState::kFailedUnknown) {
    if (reached == RecordState::kFailedUnknown && is_same) {
      return {.verdict = OwnerVerdict::kAlreadyRecorded};
    }
  } else if (!is_unfinished) {
    return {.verdict = is_same ? OwnerVerdict::kAlreadyRecorded : OwnerVerdict::kOutcomeConflict};
  }
  Record next = record;
  next.state = reached;
  next.finished_at = now;
  next.answer = item.answer;
  if (reached == RecordState::kFailedUnknown) {
    next.lease_expires_at = std::min(record.lease_expires_at, now);
  }
  return {.verdict = OwnerVerdict::kRecorded, .next = std::move(next)};
}

}  // namespace

bool IsFinal(RecordState state) {
  return state == RecordState::kCompleted || state == RecordState::kFailedFinal;
}

absl::Time LeaseOverAfter(const Record& record, const Reading& reading, const Policy& policy) {
  return std::max(record.lease_expires_at, reading.last_jump_at + record.lease_duration) +
         policy.skew_margin;
}

bool IsLeaseOver(const Record& record, const Reading& reading, const Policy& policy) {
  return reading.now > LeaseOverAfter(record, reading, policy);
}

absl::Duration ExpiryPause(const Policy& policy) {
  return std::min(kExpiryPause, policy.replay_window);
}

bool IsExpiryPaused(const Reading& reading, const Policy& policy) {
  return reading.now <= reading.last_jump_at + ExpiryPause(policy);
}

bool IsAbandoned(const Record& record, const Reading& reading, const Policy& policy) {
  switch (record.state) {
    case RecordState::kFailedUnknown:
      return true;
    case RecordState::kInProgress:
    case RecordState::kSwept:
      return IsLeaseOver(record, reading, policy);
    case RecordState::kCompleted:
    case RecordState::kFailedFinal:
    case RecordState::kReleased:
      return false;
  }
  return false;
}

bool IsSettled(const Record& record) {
  return IsFinal(record.state) ||
         (record.state == RecordState::kReleased && record.unknown_attempts == 0);
}

absl::Time ExpiresAt(const Record& record, const Policy& policy) {
  if (!IsSettled(record)) return absl::InfiniteFuture();
  return std::max(record.created_at + record.ttl,
                  record.finished_at.value_or(record.created_at) + policy.replay_window);
}

bool IsExpired(const Record& record, const Reading& reading, const Policy& policy) {
  return reading.now > ExpiresAt(record, policy) + policy.skew_margin &&
         !IsExpiryPaused(reading, policy);
}

absl::Duration LeaseRemaining(const Record& record, absl::Time now) {
  if (record.state != RecordState::kInProgress && record.state != RecordState::kSwept) {
    return absl::ZeroDuration();
  }
  return std::clamp(record.lease_expires_at - now, absl::ZeroDuration(), record.lease_duration);
}

absl::Duration RetryAfter(const Record& record, const Reading& reading, const Policy& policy) {
  return std::clamp(LeaseOverAfter(record, reading, policy) - reading.now, kMinRetryAfter,
                    kMaxRetryAfter);
}

BeginDecision DecideBegin(const Record* record, const BeginItem& item, const Reading& reading,
                          const Policy& policy) {
  if (record == nullptr) return Started(FreshRecord(nullptr, item, reading, policy), false);
  const bool is_expired = IsExpired(*record, reading, policy);
  if (!is_expired && !IsSameRequest(*record, item)) return {.verdict = BeginVerdict::kKeyReused};
  if (!is_expired && IsFinal(record->state)) return {.verdict = BeginVerdict::kReplay};
  const bool is_last = record->attempt == item.attempt;
  const bool is_released = record->state == RecordState::kReleased;
  if (IsEarlierAttempt(*record, item.attempt) || (is_last && (is_released || is_expired))) {
    return {.verdict = BeginVerdict::kLeaseLost};
  }
  if (is_expired) return Started(FreshRecord(record, item, reading, policy), false);
  if (is_released) {
    if (record->unknown_attempts > 0 && IsPastTakeoverWindow(*record, reading.now, policy)) {
      return {.verdict = BeginVerdict::kNeedsResolution};
    }
    return Started(NextAttempt(*record, item, reading, policy), false);
  }
  if (IsAbandoned(*record, reading, policy)) {
    return DecideBeginOfAbandoned(*record, item, reading, policy);
  }
  if (is_last) return {.verdict = BeginVerdict::kStarted, .repeated = true};
  return {.verdict = BeginVerdict::kInProgress};
}

OwnerDecision DecideOwner(const Record* record, const OwnerItem& item, const Reading& reading,
                          const Policy& policy) {
  if (record == nullptr) return {.verdict = OwnerVerdict::kRecordNotFound};
  if (record->attempt != item.attempt) return {.verdict = OwnerVerdict::kLeaseLost};
  return item.IsRenew() ? DecideRenew(*record, item, reading.now, policy)
                        : DecideFinish(*record, item, reading.now);
}

std::optional<Record> KeepRefused(const Record& record, const OwnerItem& item, absl::Time now) {
  IDEM_CHECK(item.answer != nullptr) << "only a refused Complete or Fail is evidence";
  RefusedOutcome refused;
  if (record.attempt == item.attempt) {
    refused.attempt_number = record.attempt_number;
  } else {
    const auto found =
        std::find(record.earlier_attempts.rbegin(), record.earlier_attempts.rend(), item.attempt);
    if (found == record.earlier_attempts.rend()) return std::nullopt;
    const auto steps_back = static_cast<int32_t>(found - record.earlier_attempts.rbegin()) + 1;
    refused.attempt_number = record.attempt_number - steps_back;
  }
  if (record.refused_outcome.has_value() &&
      now < record.refused_outcome->refused_at + kRefusedOutcomeInterval) {
    return std::nullopt;
  }
  const auto* failure = std::get_if<Failure>(item.answer.get());
  const Outcome* outcome = failure == nullptr             ? std::get_if<Outcome>(item.answer.get())
                           : failure->outcome.has_value() ? &*failure->outcome
                                                          : nullptr;
  if (outcome != nullptr) {
    refused.status_code = outcome->status_code;
    refused.response_id = outcome->response_id;
  }
  refused.content_digest = DigestOf(*item.answer);
  refused.refused_at = now;
  Record next = record;
  next.refused_outcome = std::move(refused);
  return next;
}

}  // namespace idempotency
