#include "server/engine/answers.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"

namespace idempotency {
namespace {

Metric MetricOf(const BeginResult& result) {
  switch (result.verdict) {
    case BeginVerdict::kStarted:
      return result.repeated ? Metric::kBeginRepeated : Metric::kBeginStarted;
    case BeginVerdict::kReplay:
      return Metric::kBeginReplay;
    case BeginVerdict::kInProgress:
      return Metric::kBeginInProgress;
    case BeginVerdict::kKeyReused:
      return Metric::kBeginKeyReused;
    case BeginVerdict::kLeaseLost:
      return Metric::kBeginLeaseLost;
    case BeginVerdict::kNeedsResolution:
      return Metric::kBeginNeedsResolution;
  }
  IDEM_CHECK(false) << "a verdict that does not exist";
  return Metric::kInternalFault;
}

Metric MetricOf(const OwnerItem& item, const OwnerResult& result) {
  switch (result.verdict) {
    case OwnerVerdict::kRecorded:
      IDEM_CHECK(!item.IsRenew()) << "the store recorded an answer that was not given";
      return std::holds_alternative<Outcome>(*item.answer) ? Metric::kCompleteRecorded
                                                           : Metric::kFailRecorded;
    case OwnerVerdict::kAlreadyRecorded:
      return Metric::kAlreadyRecorded;
    case OwnerVerdict::kRenewed:
      return Metric::kRenewed;
    case OwnerVerdict::kAlreadyFinished:
      return Metric::kAlreadyFinished;
    case OwnerVerdict::kOutcomeConflict:
      return Metric::kOutcomeConflict;
    case OwnerVerdict::kLeaseLost:
      return Metric::kFencingRefused;
    case OwnerVerdict::kRecordNotFound:
      return Metric::kOwnerNotFound;
    case OwnerVerdict::kNeedsResolution:
      return Metric::kRenewNeedsResolution;
  }
  IDEM_CHECK(false) << "a verdict that does not exist";
  return Metric::kInternalFault;
}

void CountFault(const absl::Status& status, Metrics& metrics) {
  switch (FaultOf(status)) {
    case Fault::kStoreUnavailable:
    case Fault::kNotDurable:
      return metrics.Add(Metric::kStoreUnavailable);
    case Fault::kSchemaIncompatible:
      return metrics.Add(Metric::kSchemaIncompatible);
    case Fault::kOverloaded:
      return metrics.Add(Metric::kOverloaded);
    case Fault::kDraining:
      return metrics.Add(Metric::kDraining);
    case Fault::kCommitUnknown:
      return metrics.Add(Metric::kCommitUnknown);
    case Fault::kDeadlineExceeded:
      return metrics.Add(Metric::kExpiredInQueue);
    case Fault::kCancelled:
      return metrics.Add(Metric::kLeftInQueue);
    case Fault::kLockTimeout:
    case Fault::kNotRead:
    case Fault::kInternal:
      return metrics.Add(Metric::kInternalFault);
  }
}

bool EndedUnknown(const PreviousAttempt& attempt) {
  return !attempt.failure.has_value() || attempt.failure->disposition == Disposition::kUnknown;
}

// REQUIRES: the call wrote the attempt. A new attempt's lease was granted at its start, a resumed
// one's long after it. The duration is stored rounded up, which makes the grant no later than it
// was.
bool IsResume(const BeginResult& result) {
  const Record& record = *result.record;
  return result.repeated && record.unknown_attempts > 0 &&
         record.lease_expires_at - record.lease_duration > record.started_at;
}

}  // namespace

bool IsEvidence(const OwnerItem& item, const OwnerResult& result) {
  if (item.IsRenew() || result.record == nullptr ||
      (result.verdict != OwnerVerdict::kLeaseLost &&
       result.verdict != OwnerVerdict::kOutcomeConflict)) {
    return false;
  }
  const Record& record = *result.record;
  const std::vector<AttemptHash>& earlier = record.earlier_attempts;
  return record.attempt == item.attempt ||
         std::find(earlier.begin(), earlier.end(), item.attempt) != earlier.end();
}

absl::Status RowIsLocked() {
  return MakeFault(Fault::kLockTimeout, "another transaction holds the record's row");
}

Answers::Answers(Admission* admission, Clock* clock, Metrics* metrics, EngineEvents* events)
    : admission_(admission), clock_(clock), metrics_(metrics), events_(events) {}

template <typename Call>
void Answers::Finish(std::unique_ptr<Call> call, absl::StatusOr<typename Call::Result> result) {
  IDEM_CHECK(!call->answered) << "a call is answered twice";
  call->answered = true;
  if (!result.ok() && FaultOf(result.status()) == Fault::kLockTimeout) {
    result = MakeFault(Fault::kStoreUnavailable, result.status().message());
  }
  if (!result.ok()) CountFault(result.status(), *metrics_);
  // Before the callback: it may use the room for its next call.
  admission_->LeaveCall();
  std::move(call->done)(std::move(result));
}

void Answers::Give(std::unique_ptr<BeginCall> call, absl::StatusOr<BeginResult> result) {
  if (result.ok()) metrics_->Add(MetricOf(*result));
  if (call->holds_wait_slot) {
    metrics_->Observe(HistogramMetric::kWaitDuration, clock_->BootTime() - call->wait_started_at);
    admission_->LeaveWait(call->item.key.merchant_id);
  }
  Finish(std::move(call), std::move(result));
}

void Answers::Give(std::unique_ptr<OwnerCall> call, absl::StatusOr<OwnerResult> result) {
  if (result.ok()) {
    metrics_->Add(MetricOf(call->item, *result));
  } else if (!call->item.IsRenew() &&
             (FaultOf(result.status()) == Fault::kLockTimeout || call->HasLeft())) {
    // A fault that its caller is told is the caller's to repeat; this one might be nobody's.
    metrics_->Add(Metric::kOutcomeGivenUp);
    events_->OnGivenUp(call->item, result.status(), call->terms.trace);
  }
  Finish(std::move(call), std::move(result));
}

void Answers::Give(std::unique_ptr<LookupCall> call, absl::StatusOr<LookupResult> result) {
  if (result.ok()) metrics_->Add(Metric::kLookup);
  Finish(std::move(call), std::move(result));
}

void Answers::Report(const BeginCall& call, const BeginResult& result) {
  // Not by `repeated`: that is also what a Begin is told whose commit's answer was lost.
  if (result.verdict != BeginVerdict::kStarted || !result.wrote_attempt) return;
  if (IsResume(result)) {
    metrics_->Add(Metric::kResume);
    events_->OnResume(*result.record, call.terms.trace);
  } else if (result.record->previous_attempt.has_value() &&
             EndedUnknown(*result.record->previous_attempt)) {
    metrics_->Add(Metric::kTakeover);
    events_->OnTakeover(*result.record, call.terms.trace);
  }
}

void Answers::Report(const OwnerCall& call, const OwnerResult& result) {
  if (call.item.IsRenew()) return;
  if (result.verdict == OwnerVerdict::kLeaseLost ||
      result.verdict == OwnerVerdict::kOutcomeConflict ||
      result.verdict == OwnerVerdict::kRecordNotFound) {
    events_->OnRefusedOutcome(call.item, result, call.terms.trace);
  }
}

absl::Status Answers::DropStatus(Fault reason) {
  return MakeFault(reason, reason == Fault::kCancelled ? "the caller left while the call was queued"
                                                       : "the deadline passed in the queue");
}

absl::Status Answers::RefusalStatus(Fault reason) {
  absl::Status status =
      MakeFault(reason, reason == Fault::kDraining ? "this replica is shutting down"
                                                   : "a bound of this replica is reached");
  CountFault(status, *metrics_);
  return status;
}

}  // namespace idempotency
