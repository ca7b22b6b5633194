// Counts the batches of one lane: how many, how large, how long each was with the database, and
// whether one is there now.
//
// For the lane's thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/base/clock.h"
#include "server/base/metrics.h"

namespace idempotency {

enum class CallKind { kBegin, kOwner, kLookup };

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

  // A call of this kind leaves its queue for a batch, having waited there for `waited`.
  void CountQueueWait(CallKind kind, absl::Duration waited) {
    metrics_->Observe(SeriesOf(kind).queue_wait, waited);
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
