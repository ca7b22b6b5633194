// The background walk over the record table: marks abandoned attempts, deletes expired records and,
// when that is set, unsettled records past an age.
//
// Each of the three walks the heap from its first block to its last in ranges, one range a step,
// and starts anew an interval after it started. The sweep also counts what it comes by, for the
// metrics: its gauges are those of the last walk that saw every range. No answer depends on any of
// this. A range that fails is
// reported and skipped: the next walk comes by it again.
//
// Step and Run are for one thread; Stop may be called from any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/store/store.h"

namespace idempotency {

class Sweeper {
 public:
  // REQUIRES: options.purge_unsettled_after is above zero (infinite: never). `clock`, `metrics` and
  // `events` must outlive this.
  Sweeper(const EngineOptions& options, std::unique_ptr<Store> store, Clock* clock,
          Metrics* metrics, EngineEvents* events);

  // One range of the walk whose turn it is, if one is due. Returns how long to pause until the
  // next.
  absl::Duration Step();
  // Steps and pauses until Stop.
  void Run();
  void Stop();

 private:
  enum Kind { kSweep, kPurge, kPurgeUnsettled, kKinds };
  struct Walk {
    absl::Duration interval;
    absl::Duration starts_at;  // the present walk's start or, between two, the next one's
    bool is_under_way = false;
    int64_t next_block = 0;
    int64_t end_block = 0;
  };

  bool IsEnabled(Kind kind) const;
  bool StartWalk(Walk& walk, absl::Duration now);
  // Sweeps a range and counts what stands in it, while its blocks are at hand.
  absl::Status SweepRange(BlockRange range);
  // The sweep's walk has come to its end.
  void PublishSurvey();
  absl::Status RunRange(Kind kind, BlockRange range);
  void Report(const absl::Status& status);
  absl::Duration PauseUntilNext(absl::Duration now) const;

  const EngineOptions options_;
  const std::unique_ptr<Store> store_;
  Clock* const clock_;
  Metrics* const metrics_;
  EngineEvents* const events_;

  std::array<Walk, kKinds> walks_;
  // Of the sweep's present walk; absent once a range of it could not be counted.
  std::optional<Survey> survey_;
  int turn_ = 0;

  Mutex mu_;
  CondVar wake_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace idempotency
