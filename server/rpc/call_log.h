// The log lines that rpc/ writes: one per call at debug, replays thinned out, key conflicts always.
//
// No line holds a body, an attempt id, a payload or a fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

// Thread-safe. `log` and `clock` must outlive it.
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
                  absl::string_view reason, absl::Duration took);
  // A record's first replay here, then at most one line a second and record, with the number of
  // replays since the line before.
  void OnReplay(absl::string_view record_id, const Record& record);
  // Another request came with a key in use: an audit line.
  void OnKeyReused(absl::string_view record_id, absl::string_view operation, const Record& record);
  // The server could not do its work; `request_id` is what the caller was told.
  void OnInternal(absl::string_view request_id, absl::string_view method, const RecordKey& key,
                  const absl::Status& status);

  // Writes the counts that have had no line yet.
  void FlushReplays();

 private:
  struct Replayed {
    std::string record_id;
    RecordKey key;
    absl::Duration last_line;
    int64_t since = 0;  // replays since the last line
  };
  using Order = std::list<Replayed>;

  void WriteReplay(const Replayed& replayed, int64_t count);

  Log* const log_;
  Clock* const clock_;
  const size_t max_records_;
  Mutex mu_;
  // The most recently replayed first; `by_record_` finds an entry by its record id.
  Order order_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<absl::string_view, Order::iterator> by_record_ ABSL_GUARDED_BY(mu_);
};

}  // namespace idempotency
