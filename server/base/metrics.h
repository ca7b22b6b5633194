// What the service counts: counters, gauges and histograms behind one interface, so that an
// exporter needs to know only this file and those it includes.
//
// Thread-safe and lock-free: a count is one relaxed addition and allocates nothing. Every metric
// exists from the start, at zero. No metric carries a key or a merchant; labels have few values,
// all known here.
//
// To add a metric, add a row: its name in code, its exported name, what it counts. A counter's
// exported name ends in _total; a series of a family with labels has them in its row:
//   X(kCacheHit, "idempotency_cache_lookup_total{result=\"hit\"}", "...")
// and all rows of a family stand together with one help text. docs/operations/observability.md
// lists every family, and a test compares the two.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/base/histogram.h"
#include "server/base/rpc_metrics.h"

namespace idempotency {

// clang-format off
// Only grow.
#define IDEM_COUNTERS(X) \
  X(kBeginStarted,         "idempotency_begin_started_total",           "attempts started, first ones and later ones") \
  X(kBeginRepeated,        "idempotency_begin_repeated_total",          "Begins answered with their own attempt again")\
  X(kBeginReplay,          "idempotency_begin_replay_total",            "Begins answered with the recorded answer")    \
  X(kBeginInProgress,      "idempotency_begin_in_progress_total",       "Begins told that another attempt is at work") \
  X(kBeginKeyReused,       "idempotency_begin_key_reused_total",        "Begins refused: another request has the key") \
  X(kBeginLeaseLost,       "idempotency_begin_lease_lost_total",        "Begins refused: their attempt is over")       \
  X(kBeginNeedsResolution, "idempotency_begin_needs_resolution_total",  "Begins refused: held or past the window")     \
  X(kTakeover,             "idempotency_takeover_total",                "attempts started after an abandoned one")     \
  X(kResume,               "idempotency_resume_total",                  "abandoned attempts resumed by their own Begin")\
  X(kCompleteRecorded,     "idempotency_complete_recorded_total",       "outcomes recorded")                           \
  X(kFailRecorded,         "idempotency_fail_recorded_total",           "failures recorded")                           \
  X(kAlreadyRecorded,      "idempotency_already_recorded_total",        "Completes and Fails repeated")                \
  X(kRenewed,              "idempotency_renewed_total",                 "leases renewed")                              \
  X(kOutcomeConflict,      "idempotency_outcome_conflict_total",        "Completes and Fails refused: other content")  \
  X(kFencingRefused,       "idempotency_fencing_refused_total",         "Completes, Fails, Renews refused: lease lost")\
  X(kOwnerNotFound,        "idempotency_owner_not_found_total",         "Completes, Fails and Renews without a record")\
  X(kAlreadyFinished,      "idempotency_already_finished_total",        "Renews refused: the attempt has finished")    \
  X(kRenewNeedsResolution, "idempotency_renew_needs_resolution_total",  "Renews refused: past the takeover window")    \
  X(kRefusedKept,          "idempotency_refused_outcome_kept_total",    "refused answers kept on their record")        \
  X(kRefusedKeepFailed,    "idempotency_refused_outcome_keep_failed_total", "refused answers that could not be kept")  \
  X(kOutcomeGivenUp,       "idempotency_outcome_given_up_total",        "Completes and Fails ended by a fault; see log")\
  X(kLookup,               "idempotency_lookup_total",                  "Lookups answered")                            \
  X(kSwept,                "idempotency_swept_total",                   "attempts marked by the sweeper")              \
  X(kPurged,               "idempotency_purged_total",                  "expired records deleted")                     \
  X(kPurgedUnsettled,      "idempotency_purged_unsettled_total",        "unsettled records deleted by age")            \
  X(kSweepWalks,           "idempotency_sweep_walks_total",             "sweeps that went over the whole table")       \
  X(kMaintenanceFailed,    "idempotency_maintenance_failed_total",      "sweep and purge steps that failed")           \
  X(kOverloaded,           "idempotency_overloaded_total",              "calls refused: a queue or cap is full")       \
  X(kCallsRefused,         "idempotency_calls_refused_total",           "calls refused: too many in flight")           \
  X(kQueueFullOfItems,     "idempotency_queue_full_of_items_total",     "calls refused: the queue is full of calls")   \
  X(kQueueFullOfBytes,     "idempotency_queue_full_of_bytes_total",     "calls refused: the queue is full of bytes")   \
  X(kQueueShed,            "idempotency_queue_shed_total",              "queued calls refused in favour of others")    \
  X(kPayloadsRefused,      "idempotency_payload_queue_refused_total",   "large payloads refused: their queue is full") \
  X(kMerchantRateLimited,  "idempotency_merchant_rate_limited_total",   "Begins and Lookups over a merchant's rate")   \
  X(kMerchantCallsRefused, "idempotency_merchant_calls_refused_total",  "the same, over a merchant's calls in flight") \
  X(kMerchantBucketForgotten, "idempotency_merchant_bucket_forgotten_total", "full buckets given to another merchant") \
  X(kMerchantBucketShared, "idempotency_merchant_bucket_shared_total",  "calls counted in a bucket that is shared")    \
  X(kAnswersRefused,       "idempotency_answer_refused_total",          "answers refused: their callers take too few") \
  X(kDraining,             "idempotency_draining_total",                "calls refused while shutting down")           \
  X(kExpiredInQueue,       "idempotency_expired_in_queue_total",        "calls dropped before SQL: deadline passed")   \
  X(kLeftInQueue,          "idempotency_left_in_queue_total",           "calls dropped before SQL: caller left")       \
  X(kBatches,              "idempotency_batch_total",                   "batches sent to the database")                \
  X(kBatchItems,           "idempotency_batch_items_total",             "items in those batches")                      \
  X(kAnswersHeldBack,      "idempotency_batch_held_back_total",         "items left to the next batch: large answers") \
  X(kCoalesced,            "idempotency_batch_coalesced_total",         "Begins answered from another one's row")      \
  X(kSlowLane,             "idempotency_slow_lane_total",               "items moved to the slow lane: row locked")    \
  X(kSlowLaneFull,         "idempotency_slow_lane_full_total",          "items that found the slow lane full")         \
  X(kStoreUnavailable,     "idempotency_store_unavailable_total",       "items answered STORE_UNAVAILABLE")            \
  X(kSchemaIncompatible,   "idempotency_schema_incompatible_total",     "items answered SCHEMA_INCOMPATIBLE")          \
  X(kInternalFault,        "idempotency_internal_fault_total",          "items answered INTERNAL")                     \
  X(kCommitUnknown,        "idempotency_commit_unknown_total",          "items answered COMMIT_UNKNOWN")               \
  X(kCommitRetried,        "idempotency_commit_retried_total",          "batches run again after a lost commit answer")\
  X(kReconnects,           "idempotency_store_reconnects_total",        "connections opened to the database")          \
  X(kCircuitOpened,        "idempotency_store_circuit_opened_total",    "times the standby circuit was opened")        \
  X(kCommitTimedOut,       "idempotency_store_commit_timed_out_total",  "commits given up: no standby confirmed them") \
  X(kBatchBisected,        "idempotency_batch_bisected_total",          "batches split to find a bad or locked item")  \
  X(kClockJumps,           "idempotency_clock_jump_total",              "jumps of the database's clock noted here")    \
  X(kClockWatchFailed,     "idempotency_clock_watch_failed_total",      "looks at the database's clock that failed")   \
  X(kWaitsRefused,         "idempotency_wait_refused_total",            "waits answered at once: a bound was reached") \
  X(kWaitWokenHere,        "idempotency_wait_woken_total{by=\"here\"}",   "waits decided again, by what made them")      \
  X(kWaitWokenByProbe,     "idempotency_wait_woken_total{by=\"probe\"}",  "waits decided again, by what made them")      \
  X(kWaitWokenByTime,      "idempotency_wait_woken_total{by=\"time\"}",   "waits decided again, by what made them")      \
  X(kWaitProbes,           "idempotency_wait_probe_total",              "looks at the records that are waited for")    \
  X(kWaitProbedKeys,       "idempotency_wait_probe_keys_total",         "keys in those")                               \
  X(kWaitProbesFailed,     "idempotency_wait_probe_failed_total",       "those that failed")                           \
  X(kCacheHits,            "idempotency_cache_lookup_total{result=\"hit\"}",  "Begins looked up in the replay cache")    \
  X(kCacheMisses,          "idempotency_cache_lookup_total{result=\"miss\"}", "Begins looked up in the replay cache")    \
  X(kCacheInsertions,      "idempotency_cache_insertion_total",         "records put into the replay cache")           \
  X(kCacheEvictions,       "idempotency_cache_removal_total{why=\"room\"}",     "records taken out of the replay cache") \
  X(kCacheExpired,         "idempotency_cache_removal_total{why=\"age\"}",      "records taken out of the replay cache") \
  X(kCacheReplaced,        "idempotency_cache_removal_total{why=\"replaced\"}", "records taken out of the replay cache") \
  X(kCacheResets,          "idempotency_cache_reset_total",             "times another database or timeline emptied it") \
  X(kOpsRequests,          "idempotency_ops_requests_total",            "requests of the operations port answered by a page")\
  X(kOpsBadRequests,       "idempotency_ops_bad_requests_total",        "requests of the operations port refused as wrong")\
  X(kOpsLate,              "idempotency_ops_late_requests_total",       "requests of the operations port cut off: too slow")\
  X(kOpsRefused,           "idempotency_ops_refused_total",             "connections to the operations port refused: too many")\
  X(kLogDropped,           "idempotency_log_dropped_total",             "log lines dropped: queue full")

// Go up and down.
#define IDEM_GAUGES(X) \
  X(kCircuitOpen,          "idempotency_store_circuit_open",            "1 while no standby confirms commits")         \
  X(kSlowLaneCalls,        "idempotency_slow_lane_calls",               "calls in the slow lane")                      \
  X(kSlowLaneBytes,        "idempotency_slow_lane_bytes",               "bytes held by calls in the slow lane")        \
  X(kClockSinceJump,       "idempotency_clock_since_jump_seconds",      "since the database's clock last jumped")      \
  X(kExpiryPaused,         "idempotency_expiry_paused",                 "1 while nothing expires: the clock jumped")   \
  X(kTokenOffset,          "idempotency_fencing_token_offset_seconds",  "what fencing tokens are ahead of the clock")  \
  X(kCallsInFlight,        "idempotency_calls_in_flight",               "calls accepted and not answered")             \
  X(kAnswerBytes,          "idempotency_answer_bytes",                  "bytes of answers that callers have not taken") \
  X(kMerchantBuckets,      "idempotency_merchant_buckets",              "merchants with limits of their own now")      \
  X(kQueuedPayloads,       "idempotency_payload_queue_items",           "large payloads that wait for a worker")       \
  X(kQueuedPayloadBytes,   "idempotency_payload_queue_bytes",           "bytes held by those calls")                   \
  X(kRecordsInProgress,    "idempotency_records_in_progress",           "records in progress, as the last sweep saw them")\
  X(kRecordsLeaseOver,     "idempotency_records_lease_over",            "of those in progress: their lease is over")   \
  X(kRecordsAbandoned,     "idempotency_records_abandoned",             "records swept or failed UNKNOWN, as the last sweep saw them")\
  X(kPurgeBacklog,         "idempotency_purge_backlog_records",         "expired records not purged yet, as the last sweep saw them")\
  X(kOldestInProgress,     "idempotency_oldest_in_progress_age_seconds", "age of the oldest record in progress, as the last sweep saw it")\
  X(kOpsConnections,       "idempotency_ops_connections",               "connections to the operations port")          \
  X(kWaiting,              "idempotency_waiting_calls",                 "Begins that wait")                            \
  X(kCacheEntries,         "idempotency_cache_entries",                 "records in the replay cache")                 \
  X(kCacheBytes,           "idempotency_cache_bytes",                   "bytes that those hold, answers twice")

// Distributions: name in code, exported name, bounds, what is observed.
#define IDEM_HISTOGRAMS(X) \
  X(kBatchSizeBegin,    "idempotency_batch_size_items{kind=\"begin\"}",                 kItems,   "calls sent to the database in one batch")               \
  X(kBatchSizeOwner,    "idempotency_batch_size_items{kind=\"owner\"}",                 kItems,   "calls sent to the database in one batch")               \
  X(kBatchSizeLookup,   "idempotency_batch_size_items{kind=\"lookup\"}",                kItems,   "calls sent to the database in one batch")               \
  X(kFlushBegin,        "idempotency_batch_flush_duration_seconds{kind=\"begin\"}",     kSeconds, "from sending a batch to knowing what became of it")     \
  X(kFlushOwner,        "idempotency_batch_flush_duration_seconds{kind=\"owner\"}",     kSeconds, "from sending a batch to knowing what became of it")     \
  X(kFlushLookup,       "idempotency_batch_flush_duration_seconds{kind=\"lookup\"}",    kSeconds, "from sending a batch to knowing what became of it")     \
  X(kQueueWaitBegin,    "idempotency_queue_wait_duration_seconds{kind=\"begin\"}",      kSeconds, "from a call's arrival to its batch")       \
  X(kQueueWaitOwner,    "idempotency_queue_wait_duration_seconds{kind=\"owner\"}",      kSeconds, "from a call's arrival to its batch")       \
  X(kQueueWaitLookup,   "idempotency_queue_wait_duration_seconds{kind=\"lookup\"}",     kSeconds, "from a call's arrival to its batch")       \
  X(kWaitDuration,      "idempotency_wait_duration_seconds",                            kSeconds, "how long Begins waited for another attempt")

// Each for every lane, told apart by the label `lane`: its number, or "slow". Name in code, exported
// name (a counter's ends in _total), how many of what is counted make one of the exported unit, what
// it counts.
#define IDEM_LANE_METRICS(X) \
  X(kQueuedItems,  "idempotency_queue_items",               1,   "calls queued")                           \
  X(kQueuedBytes,  "idempotency_queue_bytes",               1,   "bytes held by queued calls")             \
  X(kBatchItems,   "idempotency_lane_batch_items",          1,   "calls that are with the database now")   \
  X(kBusyMicros,   "idempotency_lane_busy_seconds_total",   1e6, "time spent waiting for the database")
// clang-format on

enum class Metric : size_t {
#define IDEM_ONE(name, exported, help) name,
  IDEM_COUNTERS(IDEM_ONE) IDEM_GAUGES(IDEM_ONE)
#undef IDEM_ONE
      kCount
};

enum class HistogramMetric : size_t {
#define IDEM_ONE(name, exported, bounds, help) name,
  IDEM_HISTOGRAMS(IDEM_ONE)
#undef IDEM_ONE
      kCount
};

enum class LaneMetric : size_t {
#define IDEM_ONE(name, exported, per_unit, help) name,
  IDEM_LANE_METRICS(IDEM_ONE)
#undef IDEM_ONE
      kCount
};

// The lanes that may be set, and beside them the slow lane.
inline constexpr size_t kMaxLanes = 64;
inline constexpr size_t kSlowLaneNumber = kMaxLanes;

// Its name, labels included, and what it counts.
struct MetricText {
  absl::string_view exported;
  absl::string_view help;
};

class Metrics {
 public:
  void Add(Metric metric, int64_t delta = 1) {
    values_[static_cast<size_t>(metric)].fetch_add(delta, std::memory_order_relaxed);
  }
  // For gauges that are looked at from time to time.
  void Set(Metric metric, int64_t value) {
    values_[static_cast<size_t>(metric)].store(value, std::memory_order_relaxed);
  }
  int64_t Value(Metric metric) const {
    return values_[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  }

  // `value` is a number of items or a span of time, as the histogram's bounds say.
  template <typename Value>
  void Observe(HistogramMetric metric, Value value) {
    histograms_[static_cast<size_t>(metric)].Observe(value);
  }
  const Histogram& Of(HistogramMetric metric) const {
    return histograms_[static_cast<size_t>(metric)];
  }

  // Lanes 0 to lanes-1 are exported, and the slow lane. REQUIRES: at most kMaxLanes.
  void SetLanes(size_t lanes) { lanes_shown_.store(lanes, std::memory_order_relaxed); }
  size_t lanes() const { return lanes_shown_.load(std::memory_order_relaxed); }
  // REQUIRES: lane <= kSlowLaneNumber.
  void Add(LaneMetric metric, size_t lane, int64_t delta) {
    lanes_[lane].values[static_cast<size_t>(metric)].fetch_add(delta, std::memory_order_relaxed);
  }
  int64_t Value(LaneMetric metric, size_t lane) const {
    return lanes_[lane].values[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  }
  // Over all lanes.
  int64_t Value(LaneMetric metric) const {
    int64_t sum = 0;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) sum += Value(metric, lane);
    return sum;
  }

  RpcMetrics& rpc() { return rpc_; }
  const RpcMetrics& rpc() const { return rpc_; }

  static constexpr bool IsCounter(Metric metric) {
    return static_cast<size_t>(metric) < kCounterCount;
  }
  static MetricText Text(Metric metric) { return kTexts[static_cast<size_t>(metric)]; }
  static MetricText Text(HistogramMetric metric) {
    return kHistogramTexts[static_cast<size_t>(metric)];
  }
  static MetricText Text(LaneMetric metric) { return kLaneTexts[static_cast<size_t>(metric)]; }
  static double PerUnit(LaneMetric metric) { return kLanePerUnit[static_cast<size_t>(metric)]; }

 private:
#define IDEM_ONE(name, exported, help) +1  // NOLINT(bugprone-macro-parentheses)
  static constexpr size_t kCounterCount = 0 IDEM_COUNTERS(IDEM_ONE);
#undef IDEM_ONE
#define IDEM_ONE(name, exported, help) MetricText{exported, help},
  static constexpr MetricText kTexts[] = {IDEM_COUNTERS(IDEM_ONE) IDEM_GAUGES(IDEM_ONE)};
#undef IDEM_ONE
#define IDEM_ONE(name, exported, per_unit, help) MetricText{exported, help},
  static constexpr MetricText kLaneTexts[] = {IDEM_LANE_METRICS(IDEM_ONE)};
#undef IDEM_ONE
#define IDEM_ONE(name, exported, per_unit, help) per_unit,
  static constexpr double kLanePerUnit[] = {IDEM_LANE_METRICS(IDEM_ONE)};
#undef IDEM_ONE
#define IDEM_ONE(name, exported, bounds, help) MetricText{exported, help},
  static constexpr MetricText kHistogramTexts[] = {IDEM_HISTOGRAMS(IDEM_ONE)};
#undef IDEM_ONE

  // A lane's thread and the callers that queue for it share these with nobody else.
  struct alignas(64) OneLane {
    std::array<std::atomic<int64_t>, static_cast<size_t>(LaneMetric::kCount)> values{};
  };

  std::array<std::atomic<int64_t>, static_cast<size_t>(Metric::kCount)> values_{};
#define IDEM_ONE(name, exported, bounds, help) Histogram(bounds),
  std::array<Histogram, static_cast<size_t>(HistogramMetric::kCount)> histograms_{
      {IDEM_HISTOGRAMS(IDEM_ONE)}};
#undef IDEM_ONE
  std::array<OneLane, kMaxLanes + 1> lanes_;
  std::atomic<size_t> lanes_shown_{0};
  RpcMetrics rpc_;
};

}  // namespace idempotency
