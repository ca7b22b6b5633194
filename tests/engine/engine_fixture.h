// What the engine's tests share: an engine over a model database, moved step by step.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/engine/batching_engine.h"
#include "server/record/fault.h"
#include "server/record/record.h"
#include "tests/util/fake_clock.h"
#include "tests/util/model_store.h"

namespace idempotency {

inline RecordKey Key(absl::string_view name, absl::string_view merchant = "merchant") {
  return {std::string(merchant), std::string(name)};
}

// The attempt of this number, the same whenever it is named.
inline AttemptHash Attempt(int number) {
  return HashAttemptId("attempt-" + std::to_string(number));
}

inline BeginItem BeginOf(absl::string_view key, int attempt, uint8_t body = 1) {
  BeginItem item;
  item.key = Key(key);
  item.operation = "POST /orders";
  item.fingerprint.fill(body);
  item.attempt = Attempt(attempt);
  item.ttl = absl::Hours(24);
  item.lease_duration = absl::Seconds(60);
  return item;
}

inline OwnerItem CompleteOf(absl::string_view key, int attempt, int32_t status_code = 201) {
  Outcome outcome;
  outcome.status_code = status_code;
  outcome.body = "the answer to " + std::string(key);
  OwnerItem item;
  item.key = Key(key);
  item.attempt = Attempt(attempt);
  item.answer = std::make_shared<const Answer>(std::move(outcome));
  return item;
}

inline OwnerItem FailOf(absl::string_view key, int attempt, Disposition disposition) {
  Failure failure;
  failure.disposition = disposition;
  OwnerItem item;
  item.key = Key(key);
  item.attempt = Attempt(attempt);
  item.answer = std::make_shared<const Answer>(std::move(failure));
  return item;
}

inline OwnerItem RenewOf(absl::string_view key, int attempt) {
  OwnerItem item;
  item.key = Key(key);
  item.attempt = Attempt(attempt);
  item.lease_duration = absl::Seconds(60);
  return item;
}

// What a callback was told, and how often it was called.
template <typename Result>
class Told {
 public:
  auto Done() const {
    return [state = state_](absl::StatusOr<Result> result) {
      MutexLock lock(&state->mu);
      ++state->times;
      state->result = std::move(result);
      state->changed.NotifyAll();
    };
  }

  int Times() const {
    MutexLock lock(&state_->mu);
    return state_->times;
  }
  bool IsAnswered() const { return Times() > 0; }
  // REQUIRES: answered.
  absl::StatusOr<Result> Answer() const {
    MutexLock lock(&state_->mu);
    EXPECT_EQ(state_->times, 1);
    return state_->result;
  }
  // REQUIRES: answered with a verdict.
  Result operator*() const {
    absl::StatusOr<Result> result = Answer();
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  // REQUIRES: answered with a fault.
  Fault Failed() const {
    const absl::StatusOr<Result> result = Answer();
    EXPECT_FALSE(result.ok());
    return FaultOf(result.status());
  }
  // For engines with threads.
  void Await() const {
    MutexLock lock(&state_->mu);
    while (state_->times == 0) state_->changed.Wait(&state_->mu);
  }

 private:
  struct State {
    Mutex mu;
    CondVar changed;
    int times ABSL_GUARDED_BY(mu) = 0;
    absl::StatusOr<Result> result ABSL_GUARDED_BY(mu);
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Keeps what was reported. Thread-safe.
class RecordedEvents : public EngineEvents {
 public:
  void OnTakeover(const Record& record, const TraceId& trace) override {
    Add("takeover", record.key, trace);
  }
  void OnResume(const Record& record, const TraceId& trace) override {
    Add("resume", record.key, trace);
  }
  void OnRefusedOutcome(const OwnerItem& item, const OwnerResult&, const TraceId& trace) override {
    Add("refused", item.key, trace);
  }
  void OnGivenUp(const OwnerItem& item, const absl::Status&, const TraceId& trace) override {
    Add("given up", item.key, trace);
  }
  void OnSwept(const SweptRecord& swept) override { Add("swept", swept.key); }
  void OnPurgedUnsettled(const SweptRecord& purged) override { Add("purged", purged.key); }
  void OnMaintenanceFailed(const absl::Status& status) override {
    Add("failed", {"", std::string(status.message())});
  }

  // Each as "what key", and " of trace" if its call had one.
  std::vector<std::string> Seen() {
    MutexLock lock(&mu_);
    return seen_;
  }

 private:
  void Add(const char* what, const RecordKey& key, const TraceId& trace = {}) {
    MutexLock lock(&mu_);
    seen_.push_back(std::string(what) + " " + key.idempotency_key);
    if (trace.is_set()) seen_.back() += " of " + std::string(trace.text());
  }

  Mutex mu_;
  std::vector<std::string> seen_ ABSL_GUARDED_BY(mu_);
};

// One lane, no threads: nothing happens but by Step. Both clocks move together, by Advance.
class EngineTest : public testing::Test {
 protected:
  void SetUp() override { options_.lanes = 1; }

  // Tests that need other options change them before the first call.
  BatchingEngine& engine() {
    if (engine_ == nullptr) {
      engine_ = std::make_unique<BatchingEngine>(options_, MakeModelStoreFactory(&database_),
                                                 &clock_, &metrics_, &events_);
    }
    return *engine_;
  }
  void Step() { engine().Step(); }
  void Advance(absl::Duration by) {
    clock_.Advance(by);
    database_.AdvanceClock(by);
  }
  int64_t Count(Metric metric) const { return metrics_.Value(metric); }
  // Over all lanes.
  int64_t Count(LaneMetric metric) const { return metrics_.Value(metric); }

  CallTerms Terms(absl::Duration wait = absl::ZeroDuration(),
                  absl::Duration deadline = absl::Hours(1)) {
    return {.deadline = clock_.BootTime() + deadline,
            .received = clock_.BootTime(),
            .wait = wait,
            .caller_left = nullptr};
  }

  Told<BeginResult> Begin(BeginItem item) { return Begin(std::move(item), Terms()); }
  Told<BeginResult> Begin(BeginItem item, CallTerms terms) {
    Told<BeginResult> told;
    engine().Begin(std::move(item), std::move(terms), told.Done());
    return told;
  }
  Told<OwnerResult> Owner(OwnerItem item) { return Owner(std::move(item), Terms()); }
  Told<OwnerResult> Owner(OwnerItem item, CallTerms terms) {
    Told<OwnerResult> told;
    engine().Owner(std::move(item), std::move(terms), told.Done());
    return told;
  }
  Told<LookupResult> Lookup(absl::string_view key) { return Lookup(key, Terms()); }
  Told<LookupResult> Lookup(absl::string_view key, CallTerms terms) {
    Told<LookupResult> told;
    engine().Lookup({Key(key)}, std::move(terms), told.Done());
    return told;
  }

  // A record whose attempt 1 is at work.
  void Start(absl::string_view key, int attempt = 1) {
    const Told<BeginResult> told = Begin(BeginOf(key, attempt));
    Step();
    ASSERT_EQ((*told).verdict, BeginVerdict::kStarted);
  }

  EngineOptions options_;
  ModelDatabase database_{options_.policy};
  FakeClock clock_;
  Metrics metrics_;
  RecordedEvents events_;
  std::unique_ptr<BatchingEngine> engine_;
};

}  // namespace idempotency
