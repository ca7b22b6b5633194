// The log lines that rpc/ writes: one per call at debug, replays thinned out, key conflicts always.
//
// No line holds a body, an attempt id, a payload or a fingerprint.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/trace_id.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

// The replays of one record: a line for the first, then at most one a second, with a count.
//
// Thread-safe, and lock-free but for the line itself: a record that is replayed all the time is
// counted by all threads at once. What was counted and had no line yet gets one when the counter
// goes. `log` and `clock` must outlive it.
class ReplayCounter {
 public:
  ReplayCounter(Log* log, Clock* clock, absl::string_view record_id, const RecordKey& key)
      : log_(log), clock_(clock), record_id_(record_id), key_(key) {}
  ~ReplayCounter() { WriteRest(); }
  ReplayCounter(const ReplayCounter&) = delete;
  ReplayCounter& operator=(const ReplayCounter&) = delete;

  // `trace` is that of the call: the line that it makes due has it.
  void Count(const TraceId& trace);
  // Writes the count that has had no line yet, without a trace.
  void WriteRest();

  const std::string& record_id() const { return record_id_; }

 private:
  void WriteLine(const TraceId& trace);

  Log* const log_;
  Clock* const clock_;
  const std::string record_id_;
  const RecordKey key_;
  // On Clock::BootTime's scale; a number, so that it is one word.
  std::atomic<int64_t> no_line_before_ns_{0};
  std::atomic<int64_t> since_{0};
};

// `trace` is that of the call; a call without one has lines without.
//
// Thread-safe. `log` and `clock` must outlive it, and every counter that it gave away.
class CallLog {
 public:
  // Replays are counted for at most `max_records` records, those replayed last.
  CallLog(Log* log, Clock* clock, size_t max_records = 8192);
  // As FlushReplays().
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  // A call was answered. `reason` is empty when it was not refused.
  void OnAnswered(absl::string_view method, const RecordKey& key, absl::string_view code,
                  absl::string_view reason, absl::Duration took, const TraceId& trace);
  // Counts a replay of the record; writes a line when one is due.
  void OnReplay(absl::string_view record_id, const Record& record, const TraceId& trace);
  // The record's counter, for a caller that counts there itself, without seeking it each time.
  std::shared_ptr<ReplayCounter> CounterOf(absl::string_view record_id, const Record& record) {
    std::shared_ptr<ReplayCounter> evicted;
    return Seek(record_id, record, &evicted);
  }
  // Another request came with a key in use: an audit line.
  void OnKeyReused(absl::string_view record_id, absl::string_view operation, const Record& record,
                   const TraceId& trace);
  // The server could not do its work; `request_id` is what the caller was told.
  void OnInternal(absl::string_view request_id, absl::string_view method, const RecordKey& key,
                  const absl::Status& status, const TraceId& trace);

  // Writes the counts that have had no line yet.
  void FlushReplays();

 private:
  using Order = std::list<std::shared_ptr<ReplayCounter>>;

  // `evicted`: the counter that leaves for the new one, to be given back outside of the lock.
  std::shared_ptr<ReplayCounter> Seek(absl::string_view record_id, const Record& record,
                                      std::shared_ptr<ReplayCounter>* evicted);

  Log* const log_;
  Clock* const clock_;
  const size_t max_records_;
  Mutex mu_;
  // The most recently sought first; `by_record_` finds an entry by its record id.
  Order order_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<absl::string_view, Order::iterator> by_record_ ABSL_GUARDED_BY(mu_);
};

}  // namespace idempotency
