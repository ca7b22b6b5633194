#include "server/store/postgres/batch_run.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "server/base/clock.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

// Runs of one step that deadlocks, fails to serialise, or is cancelled by an operator.
constexpr int kMaxRunsOfStep = 4;
// The lock_timeout of the halves: a row that is held for longer goes to the slow lane.
constexpr char kShortLockTimeout[] = "5ms";

}  // namespace

std::vector<Statement> WithLockWait(LockWait wait, Query query, Params params) {
  std::vector<Statement> statements;
  if (wait == LockWait::kShort) {
    statements.push_back({Query::kLockTimeout, std::move(Params().AddBytes(kShortLockTimeout))});
  }
  statements.push_back({query, std::move(params)});
  return statements;
}

BatchRun::BatchRun(size_t size, Session* session, DatabaseClock* clock, Metrics* metrics)
    : size_(size),
      session_(session),
      clock_(clock),
      metrics_(metrics),
      answered_(size),
      faults_(size),
      written_(size) {}

Places BatchRun::Open() const {
  Places places;
  for (size_t i = 0; i < size_; ++i) {
    if (!answered_[i] && faults_[i].ok()) places.push_back(i);
  }
  return places;
}

void BatchRun::SetFault(size_t place, Fault fault, absl::string_view message) {
  faults_[place] = MakeFault(fault, message);
}

void BatchRun::SetFaults(PlacesView places, Fault fault, absl::string_view message) {
  for (const size_t place : places) SetFault(place, fault, message);
}

void BatchRun::SetNotRead(PlacesView places) {
  metrics_->Add(Metric::kAnswersHeldBack, static_cast<int64_t>(places.size()));
  SetFaults(places, Fault::kNotRead, "the batch has no room for more answers");
}

void BatchRun::MarkWritten(PlacesView places) {
  for (const size_t place : places) written_[place] = true;
}

std::optional<PipelineFailure> BatchRun::Do(PlacesView places, const Step& step, LockWait wait) {
  if (places.empty()) return std::nullopt;
  std::optional<PipelineFailure> failure;
  for (int run = 0; run < kMaxRunsOfStep; ++run) {
    failure = step(places, wait);
    if (!failure.has_value()) return std::nullopt;
    if (failure->effect != Effect::kRejected) return failure;
    if (failure->kind != ErrorKind::kRunAgain && failure->kind != ErrorKind::kPrepareAgain) break;
  }
  switch (failure->kind) {
    case ErrorKind::kRunAgain:
    case ErrorKind::kPrepareAgain:
      SetFaults(places, Fault::kStoreUnavailable, failure->message);
      return std::nullopt;
    case ErrorKind::kSchema:
    case ErrorKind::kSharedSession:
    case ErrorKind::kUnavailable:
    case ErrorKind::kLost:
      return failure;
    case ErrorKind::kLockTimeout:
    case ErrorKind::kItem:
      break;
  }
  const bool is_locked = failure->kind == ErrorKind::kLockTimeout;
  if (places.size() == 1) {
    SetFault(places[0], is_locked ? Fault::kLockTimeout : Fault::kInternal, failure->message);
    return std::nullopt;
  }
  metrics_->Add(Metric::kBatchBisected);
  const LockWait next_wait = is_locked ? LockWait::kShort : wait;
  const size_t half = places.size() / 2;
  failure = Do(places.first(half), step, next_wait);
  if (failure.has_value()) return failure;
  return Do(places.subspan(half), step, next_wait);
}

bool BatchRun::IsInDoubt() const {
  for (size_t i = 0; i < size_; ++i) {
    if (written_[i] && !answered_[i] &&
        (faults_[i].ok() || FaultOf(faults_[i]) != Fault::kInternal)) {
      return true;
    }
  }
  return false;
}

void BatchRun::CloseOpen(const PipelineFailure& failure) {
  const Fault fault =
      failure.kind == ErrorKind::kSchema ? Fault::kSchemaIncompatible : Fault::kStoreUnavailable;
  SetFaults(Open(), fault, failure.message);
}

void BatchRun::DoubtOverrules() {
  for (size_t i = 0; i < size_; ++i) {
    // "Nothing was done" must not be said of an item that may have happened in an earlier run.
    if (written_[i] && !answered_[i] && FaultOf(faults_[i]) != Fault::kInternal) {
      SetFault(i, Fault::kCommitUnknown, faults_[i].message());
    }
  }
}

void BatchRun::RunUntilKnown(const BatchRunOptions& options,
                             const std::function<std::optional<PipelineFailure>()>& once) {
  const absl::Duration deadline = SystemClock()->BootTime() + options.retry_budget;
  absl::Duration pause;
  for (;;) {
    // An answer is known for good. Decided again, it might turn into a repeat, or a refusal.
    for (size_t i = 0; i < size_; ++i) {
      if (!answered_[i]) faults_[i] = absl::OkStatus();
    }
    answer_room_ = options.max_answer_bytes;
    const std::optional<PipelineFailure> failure = once();
    if (!failure.has_value() && !IsInDoubt()) return;
    // The connection ended under the batch: a new one may well serve it. A database that cannot be
    // reached or refuses is worth waiting for only if the batch may have happened.
    const bool has_ended = failure.has_value() && failure->kind == ErrorKind::kLost;
    const absl::Duration left = deadline - SystemClock()->BootTime();
    if ((!has_ended && !IsInDoubt()) || left <= absl::ZeroDuration() || session_->IsCutOff()) {
      if (failure.has_value()) CloseOpen(*failure);
      DoubtOverrules();
      return;
    }
    if (IsInDoubt()) metrics_->Add(Metric::kCommitRetried);
    absl::SleepFor(std::min(left, std::max(pause, session_->BackoffLeft())));
    pause = std::clamp(2 * pause, options.backoff.first, options.backoff.longest);
  }
}

}  // namespace idempotency
