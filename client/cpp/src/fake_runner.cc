#include "idempotency/client/fake_runner.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "client/cpp/src/arguments.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/unprotected.h"
#include "client/cpp/src/work_end.h"

namespace idempotency::client {
namespace {

// A longer one counts as this one, which any clock can add to its time.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

// Operation and content, so that two requests are equal when these are.
using RequestText = std::pair<std::string, std::string>;

RequestText TextOf(const Request& request) {
  if (const auto* payload = std::get_if<Payload>(&request.content)) {
    return {request.operation, "payload " + payload->content_type + '\n' + payload->data};
  }
  return {request.operation, "sha256 " + std::get<Fingerprint>(request.content).sha256};
}

// One key's record.
struct Entry {
  RequestText request;
  bool is_running = false;
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver;
  Attempt attempt;
  // Of the attempt that ended; absent: it crashed, or is running.
  std::optional<WorkResult> end;
  std::chrono::system_clock::time_point start_time;
  std::chrono::system_clock::time_point finish_time;

  bool IsNew() const { return attempt.record_id.empty(); }
  bool IsFinal() const {
    return !is_running && end.has_value() &&
           (end->outcome() != nullptr || end->failure()->disposition == FailureDisposition::kFinal);
  }
  bool IsReleased() const {
    return !is_running && end.has_value() && !IsFinal() &&
           end->failure()->disposition == FailureDisposition::kNotApplied;
  }
};

Error ErrorOf(ErrorKind kind, std::string reason) {
  Error error;
  error.kind = kind;
  error.message = "FakeRunner: " + reason;
  error.reason = std::move(reason);
  return error;
}

// A Client would take it for a service that was not there and did nothing.
bool IsAway(const Error& error) {
  return error.kind == ErrorKind::kUnavailable &&
         (error.reason.empty() || IsAwayReason(error.reason));
}

WorkEnd CallStoppable(const Work& fn, Attempt attempt, const RunOptions& options) {
  attempt.stop = options.cancel;
  attempt.stop_reason = [cancel = options.cancel] {
    return cancel.stop_requested() ? StopReason::kCancelled : StopReason::kNone;
  };
  return CallWork(fn, attempt, options);
}

// The text of a UUID, so that code which parses one can be tested.
std::string UuidText(const char* prefix, int64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 12 - std::min<size_t>(digits.size(), 12), '0');
  return std::string(prefix) + "-0000-8000-8000-" + digits;
}

}  // namespace

struct FakeRunner::State {
  std::mutex mu;  // guards what follows
  std::condition_variable changed;
  std::map<std::pair<std::string, std::string>, Entry> entries;
  std::optional<Error> next_start_error;
  bool loses_next_record = false;
  uint64_t unprotected_runs = 0;
  int64_t last_number = 0;

  Entry& EntryOf(const Key& key) { return entries[{key.merchant_id, key.idempotency_key}]; }

  // Those below: mu is held, but for End, which takes it.
  //
  // Nothing: the work is to be done. `held` is the record's value.
  static std::optional<RunResult> AnswerWithoutWork(Entry& entry, OnLeaseExpiry held);
  RunResult End(Entry& entry, const Attempt& attempt, WorkEnd end);

  // Makes `entry` a running attempt.
  void Start(Entry* entry, const Request& request, OnLeaseExpiry on_lease_expiry) {
    Attempt& attempt = entry->attempt;
    if (entry->IsNew()) {
      ++last_number;
      attempt.record_id = UuidText("0000fa4e", last_number);
      attempt.downstream_key = UuidText("0000d0e5", last_number);
      attempt.attempt_number = 0;
    } else {
      PreviousAttempt previous;
      previous.attempt_number = attempt.attempt_number;
      previous.start_time = entry->start_time;
      if (entry->end.has_value()) previous.failure = *entry->end->failure();
      attempt.previous_attempt = std::move(previous);
      if (!entry->IsReleased()) ++attempt.unknown_attempts;
    }
    ++attempt.attempt_number;
    attempt.fencing_token = ++last_number;
    if (on_lease_expiry == OnLeaseExpiry::kHold) entry->on_lease_expiry = on_lease_expiry;
    attempt.on_lease_expiry = entry->on_lease_expiry;
    entry->request = TextOf(request);
    entry->start_time = std::chrono::system_clock::now();
    entry->end.reset();
    entry->is_running = true;
  }
};

FakeRunner::FakeRunner() : state_(std::make_unique<State>()) {}
FakeRunner::~FakeRunner() = default;

void FakeRunner::FailNextStart(Error error) {
  const std::lock_guard lock(state_->mu);
  state_->next_start_error = std::move(error);
}

void FakeRunner::LoseNextRecord() {
  const std::lock_guard lock(state_->mu);
  state_->loses_next_record = true;
}

void FakeRunner::CrashAttempt(const Key& key, const Request& request,
                              OnLeaseExpiry on_lease_expiry) {
  const std::lock_guard lock(state_->mu);
  Entry& entry = state_->EntryOf(key);
  state_->Start(&entry, request, on_lease_expiry);
  entry.is_running = false;
}

std::optional<RunResult> FakeRunner::State::AnswerWithoutWork(Entry& entry, OnLeaseExpiry held) {
  if (entry.is_running) {
    InProgress in_progress;
    in_progress.retry_after = std::chrono::milliseconds(100);
    in_progress.record_id = entry.attempt.record_id;
    in_progress.attempt_number = entry.attempt.attempt_number;
    in_progress.start_time = entry.start_time;
    return in_progress;
  }
  if (entry.IsFinal()) {
    Replayed replayed;
    if (const Outcome* outcome = entry.end->outcome()) {
      replayed.answer = *outcome;
    } else {
      replayed.answer = *entry.end->failure();
    }
    replayed.record_id = entry.attempt.record_id;
    replayed.attempt_number = entry.attempt.attempt_number;
    replayed.start_time = entry.start_time;
    replayed.finish_time = entry.finish_time;
    return replayed;
  }
  if (!entry.IsNew() && !entry.IsReleased() && held == OnLeaseExpiry::kHold) {
    return ErrorOf(ErrorKind::kNeedsResolution, "NEEDS_RESOLUTION");
  }
  return std::nullopt;
}

RunResult FakeRunner::State::End(Entry& entry, const Attempt& attempt, WorkEnd end) {
  const std::lock_guard lock(mu);
  entry.is_running = false;
  changed.notify_all();
  if (std::exchange(loses_next_record, false)) {
    return UnrecordedError(ErrorOf(ErrorKind::kOutcomeNotRecorded, ""), std::move(end));
  }
  entry.end = end.result;
  entry.finish_time = std::chrono::system_clock::now();
  return RecordedResult(std::move(end),
                        {attempt.record_id, attempt.attempt_number, entry.finish_time});
}

RunResult FakeRunner::DoRunOnce(const Key& key, const Request& request,
                                OnLeaseExpiry on_lease_expiry, const Work& fn,
                                const RunOptions& options) {
  if (auto fault = FaultOf(key, request, on_lease_expiry, fn, options)) return *std::move(fault);
  std::unique_lock lock(state_->mu);
  if (options.cancel.stop_requested()) return ErrorOf(ErrorKind::kCancelled, "");
  if (auto error = std::exchange(state_->next_start_error, std::nullopt)) {
    if (!IsAway(*error) || options.on_unavailable == OnUnavailable::kFail) return *std::move(error);
    ++state_->unprotected_runs;
    lock.unlock();
    return UnprotectedResult(CallStoppable(fn, UnprotectedAttempt(), options), *std::move(error));
  }
  // Entries are never removed, so this one stays where it is while the lock is not held.
  Entry& entry = state_->EntryOf(key);
  if (!entry.IsNew() && entry.request != TextOf(request)) {
    return ErrorOf(ErrorKind::kKeyReused, "KEY_REUSED");
  }
  state_->changed.wait_for(lock, std::min(options.wait_timeout, kLongestWait),
                           [&] { return !entry.is_running; });
  if (auto answer = state_->AnswerWithoutWork(entry, entry.on_lease_expiry)) {
    return *std::move(answer);
  }
  state_->Start(&entry, request, on_lease_expiry);
  const Attempt attempt = entry.attempt;
  lock.unlock();
  return state_->End(entry, attempt, CallStoppable(fn, attempt, options));
}

uint64_t FakeRunner::unprotected_runs() const {
  const std::lock_guard lock(state_->mu);
  return state_->unprotected_runs;
}

LookupResult FakeRunner::DoLookup(const Key& key, bool include_body) {
  if (auto fault = FaultOf(key)) return *std::move(fault);
  const std::lock_guard lock(state_->mu);
  const auto found = state_->entries.find({key.merchant_id, key.idempotency_key});
  if (found == state_->entries.end() || found->second.IsNew()) {
    return ErrorOf(ErrorKind::kRecordNotFound, "RECORD_NOT_FOUND");
  }
  const Entry& entry = found->second;
  Record record;
  record.record_id = entry.attempt.record_id;
  record.operation = entry.request.first;
  record.start_time = entry.start_time;
  record.on_lease_expiry = entry.on_lease_expiry;
  record.attempt_number = entry.attempt.attempt_number;
  record.unknown_attempts = entry.attempt.unknown_attempts;
  record.fencing_token = entry.attempt.fencing_token;
  record.downstream_key = entry.attempt.downstream_key;
  record.previous_attempt = entry.attempt.previous_attempt;
  record.state = entry.is_running       ? RecordState::kInProgress
                 : entry.IsReleased()   ? RecordState::kReleased
                 : !entry.IsFinal()     ? RecordState::kAbandoned
                 : entry.end->outcome() ? RecordState::kCompleted
                                        : RecordState::kFailed;
  if (entry.end.has_value()) {
    record.finish_time = entry.finish_time;
    if (const Outcome* outcome = entry.end->outcome()) record.outcome = *outcome;
    if (const Failure* failure = entry.end->failure()) record.failure = *failure;
    if (record.outcome.has_value() && !include_body) record.outcome->body.reset();
  }
  return record;
}

}  // namespace idempotency::client
