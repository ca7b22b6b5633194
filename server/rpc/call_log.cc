#include "server/rpc/call_log.h"

#include <optional>
#include <utility>

namespace idempotency {
namespace {

constexpr absl::Duration kReplayInterval = absl::Seconds(1);

}  // namespace

CallLog::CallLog(Log* log, Clock* clock, size_t max_records)
    : log_(log), clock_(clock), max_records_(max_records) {}

CallLog::~CallLog() { FlushReplays(); }

void CallLog::OnAnswered(absl::string_view method, const RecordKey& key, absl::string_view code,
                         absl::string_view reason, absl::Duration took) {
  if (!log_->Enabled(LogLevel::kDebug)) return;
  log_->Debug("rpc", {{"method", method},
                      {"merchant", key.merchant_id},
                      {"key", key.idempotency_key},
                      {"code", code},
                      {"reason", reason},
                      {"took_us", absl::ToInt64Microseconds(took)}});
}

void CallLog::OnReplay(absl::string_view record_id, const Record& record) {
  if (!log_->Enabled(LogLevel::kInfo)) return;
  const absl::Duration now = clock_->BootTime();
  std::optional<Replayed> due;
  int64_t count = 1;
  std::optional<Replayed> evicted;
  {
    MutexLock lock(&mu_);
    auto found = by_record_.find(record_id);
    if (found == by_record_.end()) {
      order_.push_front({std::string(record_id), record.key, now, 0});
      by_record_[order_.front().record_id] = order_.begin();
      due = order_.front();
      if (order_.size() > max_records_) {
        by_record_.erase(order_.back().record_id);
        evicted = std::move(order_.back());
        order_.pop_back();
      }
    } else {
      Replayed& replayed = *found->second;
      order_.splice(order_.begin(), order_, found->second);
      ++replayed.since;
      if (now - replayed.last_line >= kReplayInterval) {
        count = std::exchange(replayed.since, 0);
        replayed.last_line = now;
        due = replayed;
      }
    }
  }
  if (due.has_value()) WriteReplay(*due, count);
  if (evicted.has_value() && evicted->since > 0) WriteReplay(*evicted, evicted->since);
}

void CallLog::OnKeyReused(absl::string_view record_id, absl::string_view operation,
                          const Record& record) {
  log_->Audit(LogLevel::kWarn, "key_reused",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", record_id},
               {"stored_operation", record.operation},
               {"given_operation", operation},
               {"stored_fingerprint_scheme", record.fingerprint_scheme}});
}

void CallLog::OnInternal(absl::string_view request_id, absl::string_view method,
                         const RecordKey& key, const absl::Status& status) {
  log_->Error("internal_error", {{"request_id", request_id},
                                 {"method", method},
                                 {"merchant", key.merchant_id},
                                 {"key", key.idempotency_key},
                                 {"detail", status.message()}});
}

void CallLog::FlushReplays() {
  Order unwritten;
  {
    MutexLock lock(&mu_);
    by_record_.clear();
    unwritten.swap(order_);
  }
  for (const Replayed& replayed : unwritten) {
    if (replayed.since > 0) WriteReplay(replayed, replayed.since);
  }
}

void CallLog::WriteReplay(const Replayed& replayed, int64_t count) {
  log_->Info("replay", {{"merchant", replayed.key.merchant_id},
                        {"key", replayed.key.idempotency_key},
                        {"record_id", replayed.record_id},
                        {"count", count}});
}

}  // namespace idempotency
