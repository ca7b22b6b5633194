// Counters and gauges behind one interface, so that an exporter needs to know only this file.
//
// Thread-safe and lock-free. Every metric exists from the start, at zero. No metric carries a key
// or a merchant.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace idempotency {

// clang-format off
// name in code, exported name, what it counts
#define IDEM_METRICS(X)                                                                                              \
  X(kBeginStarted,        "idempotency_begin_started_total",         "attempts started, first ones and later ones")   \
  X(kBeginRepeated,       "idempotency_begin_repeated_total",        "Begins answered with their own attempt again")  \
  X(kBeginReplay,         "idempotency_begin_replay_total",          "Begins answered with the recorded answer")      \
  X(kBeginInProgress,     "idempotency_begin_in_progress_total",     "Begins told that another attempt is at work")   \
  X(kBeginKeyReused,      "idempotency_begin_key_reused_total",      "Begins refused: another request has the key")   \
  X(kBeginLeaseLost,      "idempotency_begin_lease_lost_total",      "Begins refused: their attempt is over")         \
  X(kBeginNeedsResolution,"idempotency_begin_needs_resolution_total","Begins refused: held or past the window")       \
  X(kTakeover,            "idempotency_takeover_total",              "attempts started after an abandoned one")       \
  X(kResume,              "idempotency_resume_total",                "abandoned attempts resumed by their own Begin") \
  X(kCompleteRecorded,    "idempotency_complete_recorded_total",     "outcomes recorded")                             \
  X(kFailRecorded,        "idempotency_fail_recorded_total",         "failures recorded")                             \
  X(kAlreadyRecorded,     "idempotency_already_recorded_total",      "Completes and Fails repeated")                  \
  X(kRenewed,             "idempotency_renewed_total",               "leases renewed")                                \
  X(kOutcomeConflict,     "idempotency_outcome_conflict_total",      "Completes and Fails refused: other content")    \
  X(kFencingRefused,      "idempotency_fencing_refused_total",       "Completes, Fails, Renews refused: lease lost")  \
  X(kOwnerNotFound,       "idempotency_owner_not_found_total",       "Completes, Fails and Renews without a record")  \
  X(kAlreadyFinished,     "idempotency_already_finished_total",      "Renews refused: the attempt has finished")      \
  X(kRenewNeedsResolution,"idempotency_renew_needs_resolution_total","Renews refused: past the takeover window")      \
  X(kRefusedKept,         "idempotency_refused_outcome_kept_total",  "refused answers kept on their record")          \
  X(kRefusedKeepFailed,   "idempotency_refused_outcome_keep_failed_total", "refused answers that could not be kept")  \
  X(kOutcomeGivenUp,      "idempotency_outcome_given_up_total",      "Completes and Fails ended by a fault; see log") \
  X(kLookup,              "idempotency_lookup_total",                "Lookups answered")                              \
  X(kSwept,               "idempotency_swept_total",                 "attempts marked by the sweeper")                \
  X(kPurged,              "idempotency_purged_total",                "expired records deleted")                       \
  X(kPurgedUnsettled,     "idempotency_purged_unsettled_total",      "unsettled records deleted by age")              \
  X(kMaintenanceFailed,   "idempotency_maintenance_failed_total",    "sweep and purge steps that failed")             \
  X(kOverloaded,          "idempotency_overloaded_total",            "calls refused: a queue or cap is full")         \
  X(kDraining,            "idempotency_draining_total",              "calls refused while shutting down")             \
  X(kExpiredInQueue,      "idempotency_expired_in_queue_total",      "calls dropped before SQL: deadline passed")     \
  X(kLeftInQueue,         "idempotency_left_in_queue_total",         "calls dropped before SQL: caller left")         \
  X(kBatches,             "idempotency_batch_total",                 "batches sent to the database")                  \
  X(kBatchItems,          "idempotency_batch_items_total",           "items in those batches")                        \
  X(kCoalesced,           "idempotency_batch_coalesced_total",       "Begins answered from another one's row")        \
  X(kSlowLane,            "idempotency_slow_lane_total",             "items moved to the slow lane: row locked")      \
  X(kSlowLaneFull,        "idempotency_slow_lane_full_total",        "items that found the slow lane full")           \
  X(kSlowLaneCalls,       "idempotency_slow_lane_calls",             "gauge: calls in the slow lane")                 \
  X(kStoreUnavailable,    "idempotency_store_unavailable_total",     "items answered STORE_UNAVAILABLE")              \
  X(kSchemaIncompatible,  "idempotency_schema_incompatible_total",   "items answered SCHEMA_INCOMPATIBLE")            \
  X(kInternalFault,       "idempotency_internal_fault_total",        "items answered INTERNAL")                       \
  X(kCommitUnknown,       "idempotency_commit_unknown_total",        "items answered COMMIT_UNKNOWN")                 \
  X(kCommitRetried,       "idempotency_commit_retried_total",        "batches run again after a lost commit answer")  \
  X(kReconnects,          "idempotency_store_reconnects_total",      "connections opened to the database")            \
  X(kBatchBisected,       "idempotency_batch_bisected_total",        "batches split to find a bad or locked item")    \
  X(kWaitsRefused,        "idempotency_wait_refused_total",          "waits answered at once: a bound was reached")   \
  X(kQueuedItems,         "idempotency_queue_items",                 "gauge: items queued")                           \
  X(kQueuedBytes,         "idempotency_queue_bytes",                 "gauge: bytes queued")                           \
  X(kCallsInFlight,       "idempotency_calls_in_flight",             "gauge: calls accepted and not answered")        \
  X(kWaiting,             "idempotency_waiting_calls",               "gauge: Begins that wait")                       \
  X(kLogDropped,          "idempotency_log_dropped_total",           "log lines dropped: queue full")
// clang-format on

enum class Metric : size_t {
#define IDEM_ONE(name, exported, help) name,
  IDEM_METRICS(IDEM_ONE)
#undef IDEM_ONE
      kCount
};

class Metrics {
 public:
  void Add(Metric metric, int64_t delta = 1) {
    values_[static_cast<size_t>(metric)].fetch_add(delta, std::memory_order_relaxed);
  }
  int64_t Value(Metric metric) const {
    return values_[static_cast<size_t>(metric)].load(std::memory_order_relaxed);
  }
  static absl::string_view ExportedName(Metric metric) {
    static constexpr const char* kNames[] = {
#define IDEM_ONE(name, exported, help) exported,
        IDEM_METRICS(IDEM_ONE)
#undef IDEM_ONE
    };
    return kNames[static_cast<size_t>(metric)];
  }

 private:
  std::array<std::atomic<int64_t>, static_cast<size_t>(Metric::kCount)> values_{};
};

}  // namespace idempotency
