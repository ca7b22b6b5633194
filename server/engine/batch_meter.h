// Counts the batches of one lane: how many, how large, how long each was with the database, and
// whether one is there now.
//
// For the lane's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/engine/batch.h"

namespace idempotency {

enum class CallKind { kBegin, kOwner, kLookup };
inline constexpr size_t kCallKinds = 3;

class BatchMeter {
 public:
  // `lane` as in Metrics. `clock` and `metrics` must outlive this.
  BatchMeter(Clock* clock, Metrics* metrics, size_t lane)
      : clock_(clock), metrics_(metrics), lane_(lane) {}

  // Runs a batch of `items` and returns what `run` returns.
  template <typename Run>
  auto Measure(CallKind kind, size_t items, const Run& run) {
    const absl::Duration sent = Sent(items);
    auto results = run();
    Returned(kind, items, clock_->BootTime() - sent);
    return results;
  }

  // Counts how long the batch's calls have waited for it, each call once.
  template <typename Call>
  void CountQueueWaits(CallKind kind, const CallBatch<Call>& batch, absl::Duration now) {
    const HistogramMetric metric = SeriesOf(kind).queue_wait;
    Histogram::Tally tally(metrics_->Of(metric));
    const auto count = [&](Call& call) {
      if (!std::exchange(call.is_queue_wait_counted, true))
        tally.Observe(now - call.terms.received);
    };
    for (const CallGroup<Call>& group : batch.groups) {
      count(*group.first);
      for (const auto& follower : group.followers) count(*follower);
    }
    metrics_->Observe(metric, tally);
  }

 private:
  struct Series {
    HistogramMetric size;
    HistogramMetric flush;
    HistogramMetric queue_wait;
  };
  static Series SeriesOf(CallKind kind);
  absl::Duration Sent(size_t items);
  void Returned(CallKind kind, size_t items, absl::Duration took);

  Clock* const clock_;
  Metrics* const metrics_;
  const size_t lane_;
};

}  // namespace idempotency
