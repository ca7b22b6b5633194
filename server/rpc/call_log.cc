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
                         absl::string_view reason, absl::Duration took, const TraceId& trace) {
  if (!log_->Enabled(LogLevel::kDebug)) return;
  log_->Debug("rpc", {{"method", method},
                      {"merchant", key.merchant_id},
                      {"key", key.idempotency_key},
                      {"code", code},
                      {"reason", reason},
                      {"took_us", absl::ToInt64Microseconds(took)},
                      LogField::IfAny("trace_id", trace.text())});
}

void CallLog::OnReplay(absl::string_view record_id, const Record& record, const TraceId& trace) {
  std::shared_ptr<ReplayCounter> evicted;
  Seek(record_id, record, &evicted)->Count(trace);
}

std::shared_ptr<ReplayCounter> CallLog::Seek(absl::string_view record_id, const Record& record,
                                             std::shared_ptr<ReplayCounter>* evicted) {
  MutexLock lock(&mu_);
  const auto found = by_record_.find(record_id);
  if (found != by_record_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front();
  }
  order_.push_front(std::make_shared<ReplayCounter>(log_, clock_, record_id, record.key));
  by_record_[order_.front()->record_id()] = order_.begin();
  if (order_.size() > max_records_) {
    by_record_.erase(order_.back()->record_id());
    *evicted = std::move(order_.back());
    order_.pop_back();
  }
  return order_.front();
}

void CallLog::OnKeyReused(absl::string_view record_id, absl::string_view operation,
                          const Record& record, const TraceId& trace) {
  log_->Audit(LogLevel::kWarn, "key_reused",
              {{"merchant", record.key.merchant_id},
               {"key", record.key.idempotency_key},
               {"record_id", record_id},
               {"stored_operation", record.operation},
               {"given_operation", operation},
               {"stored_fingerprint_scheme", record.fingerprint_scheme},
               LogField::IfAny("trace_id", trace.text())});
}

void CallLog::OnInternal(absl::string_view request_id, absl::string_view method,
                         const RecordKey& key, const absl::Status& status, const TraceId& trace) {
  log_->Error("internal_error", {{"request_id", request_id},
                                 {"method", method},
                                 {"merchant", key.merchant_id},
                                 {"key", key.idempotency_key},
                                 {"detail", status.message()},
                                 LogField::IfAny("trace_id", trace.text())});
}

void CallLog::FlushReplays() {
  Order unwritten;
  {
    MutexLock lock(&mu_);
    by_record_.clear();
    unwritten.swap(order_);
  }
  // Others may hold a counter on.
  for (const std::shared_ptr<ReplayCounter>& counter : unwritten) counter->WriteRest();
}

void ReplayCounter::Count(const TraceId& trace) {
  if (!log_->Enabled(LogLevel::kInfo)) return;
  since_.fetch_add(1, std::memory_order_relaxed);
  const int64_t now = absl::ToInt64Nanoseconds(clock_->BootTime());
  int64_t due = no_line_before_ns_.load(std::memory_order_relaxed);
  if (now < due) return;
  // The first of those that find it due writes the line for all.
  if (no_line_before_ns_.compare_exchange_strong(
          due, now + absl::ToInt64Nanoseconds(kReplayInterval), std::memory_order_relaxed)) {
    WriteLine(trace);
  }
}

void ReplayCounter::WriteRest() { WriteLine(TraceId()); }

void ReplayCounter::WriteLine(const TraceId& trace) {
  const int64_t count = since_.exchange(0, std::memory_order_relaxed);
  if (count == 0) return;
  log_->Info("replay", {{"merchant", key_.merchant_id},
                        {"key", key_.idempotency_key},
                        {"record_id", record_id_},
                        {"count", count},
                        LogField::IfAny("trace_id", trace.text())});
}

}  // namespace idempotency
