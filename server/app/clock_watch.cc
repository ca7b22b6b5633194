#include "server/app/clock_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/base/check.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

absl::string_view ReasonText(ClockJump jump) {
  switch (jump) {
    case ClockJump::kOtherHistory:
      return "another_database_or_timeline";
    case ClockJump::kRanBack:
      return "ran_back";
    case ClockJump::kGap:
      return "ran_ahead_or_not_watched";
    case ClockJump::kDrift:
      return "drifted";
  }
  return "unknown";
}

int64_t Millis(absl::Duration duration) { return absl::ToInt64Milliseconds(duration); }

}  // namespace

ClockWatch::ClockWatch(std::unique_ptr<Store> store, const Policy& policy, Clock* clock,
                       Metrics* metrics, Log* log)
    : policy_(policy),
      limits_(LimitsOf(policy)),
      clock_(clock),
      metrics_(metrics),
      log_(log),
      store_(std::move(store)) {}

ClockWatch::~ClockWatch() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
  }
  ending_changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void ClockWatch::Start() {
  IDEM_CHECK(!thread_.joinable()) << "started twice";
  thread_ = std::thread([this] { Run(); });
}

void ClockWatch::Step() {
  const absl::Status status = Look();
  if (!status.ok()) metrics_->Add(Metric::kClockWatchFailed);
  if (is_failing_ == !status.ok()) return;
  is_failing_ = !status.ok();
  if (is_failing_) {
    log_->Warn("clock_not_watched",
               {{"detail", status.message()},
                {"meaning", "after " + absl::FormatDuration(limits_.longest_gap) +
                                " without any replica's look nothing is taken over or expires"}});
  } else {
    log_->Info("clock_watched_again");
  }
}

absl::Status ClockWatch::Look() {
  const absl::Duration asked_at = clock_->BootTime();
  ASSIGN_OR_RETURN(ClockState state, store_->ReadClock());
  const absl::Duration told_at = clock_->BootTime();
  // Another node has another clock. That it is another one is the guard's row to tell.
  if (identity_ != store_->Identity()) drift_.Forget();
  identity_ = store_->Identity();
  const absl::Duration drift = drift_.Saw(state.now, asked_at, told_at);
  const bool saw_drift = drift > limits_.longest_drift;

  const Reading reading = ReadingBy(state.guard, state.now, state.is_same_history, policy_);
  const bool has_jumped = reading.last_jump_at == reading.now;
  if (saw_drift || has_jumped || state.now >= state.guard.reading + limits_.refresh_interval / 2) {
    ASSIGN_OR_RETURN(const ClockState written, store_->RefreshClock(saw_drift));
    if (written.guard.last_jump_at == written.guard.reading) Note(state, written, drift);
    // Not before it is written: until then the next look must see it again.
    if (saw_drift) {
      drift_.Forget();
      drift_.Saw(state.now, asked_at, told_at);
    }
    state = written;
  }
  Show(state);
  return absl::OkStatus();
}

void ClockWatch::Note(const ClockState& before, const ClockState& after, absl::Duration drift) {
  metrics_->Add(Metric::kClockJumps);
  const bool is_first = before.guard.reading == absl::InfinitePast();
  const absl::Duration since_reading =
      is_first ? absl::ZeroDuration() : after.now - before.guard.reading;
  log_->Audit(LogLevel::kWarn, "clock_jumped",
              {{"reason", ReasonText(after.last_jump)},
               {"since_last_reading_ms", Millis(since_reading)},
               {"drift_ms", Millis(std::max(drift, absl::ZeroDuration()))},
               {"token_offset_us", after.guard.token_offset_us},
               {"expiry_paused_ms", Millis(ExpiryPause(policy_))}});
}

void ClockWatch::Show(const ClockState& state) {
  const Reading reading = ReadingBy(state.guard, state.now, state.is_same_history, policy_);
  metrics_->Set(Metric::kClockSinceJump, absl::ToInt64Seconds(reading.now - reading.last_jump_at));
  metrics_->Set(Metric::kExpiryPaused, IsExpiryPaused(reading, policy_) ? 1 : 0);
  metrics_->Set(Metric::kTokenOffset, reading.token_offset_us / 1'000'000);
}

void ClockWatch::Run() {
  while (true) {
    const absl::Duration started_at = clock_->BootTime();
    Step();
    MutexLock lock(&mu_);
    // From start to start, so that a slow database does not widen the gap by the interval.
    for (absl::Duration left = started_at + limits_.refresh_interval - clock_->BootTime();
         !ending_ && left > absl::ZeroDuration();
         left = started_at + limits_.refresh_interval - clock_->BootTime()) {
      ending_changed_.WaitFor(&mu_, left);
    }
    if (ending_) return;
  }
}

}  // namespace idempotency
