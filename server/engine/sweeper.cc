#include "server/engine/sweeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/status_macros.h"
#include "server/record/fault.h"

namespace idempotency {

Sweeper::Sweeper(const EngineOptions& options, std::unique_ptr<Store> store, Clock* clock,
                 Metrics* metrics, EngineEvents* events)
    : options_(options),
      store_(std::move(store)),
      clock_(clock),
      metrics_(metrics),
      events_(events) {
  // How old they must be is for the settings' bounds: they are the only trace of money that may
  // have moved.
  IDEM_CHECK(options.purge_unsettled_after > absl::ZeroDuration()) << "records of no age";
  IDEM_CHECK(options.maintenance_step_blocks > 0) << "a step of no blocks ends nowhere";
  const absl::Duration now = clock->BootTime();
  walks_[kSweep] = {.interval = options.sweep_interval, .starts_at = now};
  walks_[kPurge] = {.interval = options.purge_interval, .starts_at = now};
  walks_[kPurgeUnsettled] = {.interval = options.purge_interval, .starts_at = now};
}

bool Sweeper::IsEnabled(Kind kind) const {
  return kind != kPurgeUnsettled || options_.purge_unsettled_after != absl::InfiniteDuration();
}

absl::Duration Sweeper::Step() {
  const absl::Duration now = clock_->BootTime();
  for (int i = 0; i < kKinds; ++i) {
    const Kind kind = static_cast<Kind>((turn_ + i) % kKinds);
    Walk& walk = walks_[kind];
    if (!IsEnabled(kind) || (!walk.is_under_way && walk.starts_at > now)) continue;
    turn_ = (kind + 1) % kKinds;
    if (!walk.is_under_way) {
      if (!StartWalk(walk, now)) break;
      if (kind == kSweep) survey_.emplace();
    }
    const int64_t last =
        std::min(walk.next_block + options_.maintenance_step_blocks, walk.end_block);
    absl::Status status;
    if (walk.next_block < last) status = RunRange(kind, {walk.next_block, last});
    walk.next_block = last;
    // Without a database the other ranges would fail one by one.
    const bool is_given_up = !status.ok() && FaultOf(status) == Fault::kStoreUnavailable;
    if (!status.ok()) Report(status);
    const bool is_over = walk.next_block >= walk.end_block;
    if (kind == kSweep && is_over && !is_given_up) PublishSurvey();
    if (is_given_up || is_over) {
      walk.is_under_way = false;
      walk.starts_at = std::max(walk.starts_at + walk.interval, now);
    }
    break;
  }
  return PauseUntilNext(clock_->BootTime());
}

bool Sweeper::StartWalk(Walk& walk, absl::Duration now) {
  walk.starts_at = now;
  const absl::StatusOr<int64_t> blocks = store_->CountBlocks();
  if (!blocks.ok()) {
    Report(blocks.status());
    walk.starts_at = now + walk.interval;
    return false;
  }
  walk.is_under_way = true;
  walk.next_block = 0;
  walk.end_block = *blocks;
  return true;
}

absl::Status Sweeper::RunRange(Kind kind, BlockRange range) {
  if (kind == kPurge) {
    ASSIGN_OR_RETURN(const int64_t purged, store_->PurgeStep(range));
    metrics_->Add(Metric::kPurged, purged);
    return absl::OkStatus();
  }
  if (kind == kPurgeUnsettled) {
    ASSIGN_OR_RETURN(const std::vector<SweptRecord> purged,
                     store_->PurgeUnsettledStep(range, options_.purge_unsettled_after));
    metrics_->Add(Metric::kPurgedUnsettled, static_cast<int64_t>(purged.size()));
    for (const SweptRecord& record : purged) events_->OnPurgedUnsettled(record);
    return absl::OkStatus();
  }
  const absl::Status status = SweepRange(range);
  if (!status.ok()) survey_.reset();
  return status;
}

absl::Status Sweeper::SweepRange(BlockRange range) {
  ASSIGN_OR_RETURN(const std::vector<SweptRecord> swept,
                   store_->SweepStep(range, options_.sweep_grace));
  metrics_->Add(Metric::kSwept, static_cast<int64_t>(swept.size()));
  for (const SweptRecord& record : swept) events_->OnSwept(record);
  ASSIGN_OR_RETURN(const Survey seen, store_->SurveyStep(range));
  if (!survey_.has_value()) return absl::OkStatus();
  survey_->in_progress += seen.in_progress;
  survey_->lease_over += seen.lease_over;
  survey_->abandoned += seen.abandoned;
  survey_->expired += seen.expired;
  survey_->oldest_in_progress = std::max(survey_->oldest_in_progress, seen.oldest_in_progress);
  return absl::OkStatus();
}

void Sweeper::PublishSurvey() {
  if (!survey_.has_value()) return;
  metrics_->Add(Metric::kSweepWalks);
  metrics_->Set(Metric::kRecordsInProgress, survey_->in_progress);
  metrics_->Set(Metric::kRecordsLeaseOver, survey_->lease_over);
  metrics_->Set(Metric::kRecordsAbandoned, survey_->abandoned);
  metrics_->Set(Metric::kPurgeBacklog, survey_->expired);
  metrics_->Set(Metric::kOldestInProgress, absl::ToInt64Seconds(survey_->oldest_in_progress));
}

void Sweeper::Report(const absl::Status& status) {
  metrics_->Add(Metric::kMaintenanceFailed);
  events_->OnMaintenanceFailed(status);
}

absl::Duration Sweeper::PauseUntilNext(absl::Duration now) const {
  absl::Duration pause = absl::InfiniteDuration();
  for (int i = 0; i < kKinds; ++i) {
    const Walk& walk = walks_[i];
    if (!IsEnabled(static_cast<Kind>(i))) continue;
    const absl::Duration until_start =
        walk.is_under_way ? absl::ZeroDuration() : walk.starts_at - now;
    pause = std::min(pause, std::max(until_start, options_.maintenance_pause));
  }
  return pause;
}

void Sweeper::Run() {
  while (true) {
    const absl::Duration pause = Step();
    const absl::Duration until = clock_->BootTime() + pause;
    MutexLock lock(&mu_);
    // A wake-up that nobody asked for must not shorten the pause: it is what paces the walk.
    for (absl::Duration left = pause; !stopped_ && left > absl::ZeroDuration();
         left = until - clock_->BootTime()) {
      wake_.WaitFor(&mu_, left);
    }
    if (stopped_) return;
  }
}

void Sweeper::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  wake_.NotifyAll();
}

}  // namespace idempotency
