// Many threads at once. ThreadSanitizer runs these too.
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class StressTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> MakeReplica() {
    return MakeEngine(options_, MakeModelStoreFactory(&database_), SystemClock(), &metrics_,
                      &events_);
  }
  static CallTerms Terms() { return {.deadline = SystemClock()->BootTime() + absl::Minutes(5)}; }
  void ExpectGaugesAtZero() {
    EXPECT_EQ(metrics_.Value(Metric::kCallsInFlight), 0);
    EXPECT_EQ(metrics_.Value(LaneMetric::kQueuedItems), 0);
    EXPECT_EQ(metrics_.Value(LaneMetric::kQueuedBytes), 0);
    EXPECT_EQ(metrics_.Value(Metric::kWaiting), 0);
    EXPECT_EQ(metrics_.Value(Metric::kSlowLaneCalls), 0);
  }

  EngineOptions options_;
  ModelDatabase database_{options_.policy};
  Metrics metrics_;
  RecordedEvents events_;
};

TEST_F(StressTest, ThousandBeginsOnOneKeyOverThreeReplicasStartOnce) {
  constexpr int kCalls = 1000;
  std::vector<std::unique_ptr<Engine>> replicas;
  for (int i = 0; i < 3; ++i) replicas.push_back(MakeReplica());
  std::vector<Told<BeginResult>> told(kCalls);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = caller; i < kCalls; i += 6) {
        replicas[i % 3]->Begin(BeginOf("hot", i), Terms(), told[i].Done());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& one : told) one.Await();
  int started = 0;
  for (const auto& one : told) {
    if ((*one).verdict == BeginVerdict::kStarted) {
      ++started;
    } else {
      EXPECT_EQ((*one).verdict, BeginVerdict::kInProgress);
    }
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(database_.Find(Key("hot"))->attempt_number, 1);
  replicas.clear();
  ExpectGaugesAtZero();
}

TEST_F(StressTest, ThousandWaitersGetOneOutcome) {
  options_.waits_per_key_max = 1000;
  std::unique_ptr<Engine> engine = MakeReplica();
  Told<BeginResult> owner;
  engine->Begin(BeginOf("hot", 0), Terms(), owner.Done());
  owner.Await();
  std::vector<Told<BeginResult>> told(1000);
  for (size_t i = 0; i < told.size(); ++i) {
    CallTerms terms = Terms();
    terms.wait = kMaxWait;
    engine->Begin(BeginOf("hot", static_cast<int>(i) + 1), std::move(terms), told[i].Done());
  }
  Told<OwnerResult> complete;
  engine->Owner(CompleteOf("hot", 0), Terms(), complete.Done());
  for (const auto& one : told) one.Await();
  for (const auto& one : told) EXPECT_EQ((*one).verdict, BeginVerdict::kReplay);
  engine.reset();
  ExpectGaugesAtZero();
}

// One thread's random calls. Every call is counted when it is made and when it is answered.
class RandomCaller {
 public:
  RandomCaller(Engine* engine, unsigned seed, std::atomic<int64_t>* open)
      : engine_(engine), random_(seed), open_(open) {}

  void Call() {
    const std::string key = "key-" + std::to_string(random_() % 8);
    const int attempt = static_cast<int>(random_() % 4);
    CallTerms terms = Terms();
    open_->fetch_add(1);
    switch (random_() % 6) {
      case 0:
      case 1:
        terms.wait = absl::Milliseconds(random_() % 3);
        return engine_->Begin(BeginOf(key, attempt, random_() % 16 == 0 ? 2 : 1), std::move(terms),
                              Done<BeginResult>());
      case 2:
        return engine_->Owner(CompleteOf(key, attempt), std::move(terms), Done<OwnerResult>());
      case 3:
        return engine_->Owner(FailOf(key, attempt, Disposition::kNotApplied), std::move(terms),
                              Done<OwnerResult>());
      case 4:
        return engine_->Owner(RenewOf(key, attempt), std::move(terms), Done<OwnerResult>());
      default:
        return engine_->Lookup({Key(key)}, std::move(terms), Done<LookupResult>());
    }
  }

 private:
  CallTerms Terms() {
    CallTerms terms;
    terms.deadline = SystemClock()->BootTime() + absl::Milliseconds(random_() % 200);
    if (random_() % 8 == 0) {
      terms.caller_left = std::make_shared<std::atomic<bool>>(random_() % 2 == 0);
    }
    return terms;
  }
  template <typename Result>
  absl::AnyInvocable<void(absl::StatusOr<Result>) &&> Done() {
    return [open = open_](absl::StatusOr<Result>) { open->fetch_sub(1); };
  }

  Engine* const engine_;
  std::mt19937 random_;
  std::atomic<int64_t>* const open_;
};

// Faults come and go while callers call, on small bounds; then the engine drains under them.
TEST_F(StressTest, RandomCallsAreAllAnsweredOnce) {
  options_.lanes = 3;
  options_.batch_max_items = 4;
  options_.queue_max_items = 64;
  options_.waits_per_key_max = 4;
  options_.maintenance_pause = absl::ZeroDuration();
  options_.sweep_interval = absl::Milliseconds(1);
  options_.purge_interval = absl::Milliseconds(1);
  const unsigned seed = std::random_device()();
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::atomic<int64_t> open{0};
  std::atomic<int> made{0};
  std::unique_ptr<Engine> engine = MakeReplica();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      RandomCaller caller(engine.get(), seed + i, &open);
      for (int call = 0; call < 3000; ++call, ++made) caller.Call();
    });
  }
  threads.emplace_back([&] {
    std::mt19937 random(seed);
    size_t faults = 0;
    constexpr Fault kFaults[] = {Fault::kStoreUnavailable, Fault::kLockTimeout,
                                 Fault::kCommitUnknown, Fault::kInternal};
    // Ends, and the engine drains, while the callers are still at it.
    while (made.load() < 9000) {
      const RecordKey key = Key("key-" + std::to_string(random() % 8));
      // Not faster than batches take them up: what is left over would strike while draining.
      if (database_.Batches().size() > 4 * faults) {
        ++faults;
        database_.FailNext(random() % 2 == 0 ? BatchKind::kBegin : BatchKind::kOwner,
                           MakeFault(kFaults[random() % 4], "injected"));
      }
      database_.FailKey(key, MakeFault(Fault::kLockTimeout, "injected"));
      database_.AdvanceClock(absl::Seconds(random() % 40));
      std::this_thread::yield();
      database_.ClearKeyFault(key);
    }
  });
  threads[4].join();
  engine->Drain();
  for (int i = 0; i < 4; ++i) threads[i].join();
  EXPECT_EQ(open.load(), 0);
  engine.reset();
  ExpectGaugesAtZero();
}

// Attempts compete for keys through three replicas; each start must be answered to one attempt
// only.
TEST_F(StressTest, EveryAttemptNumberIsStartedForOneAttemptOnly) {
  std::vector<std::unique_ptr<Engine>> replicas;
  for (int i = 0; i < 3; ++i) replicas.push_back(MakeReplica());
  Mutex mu;
  std::set<std::pair<std::string, int32_t>> started;
  std::atomic<int> doubles{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 400; ++i) {
        const std::string key = "key-" + std::to_string(i % 5);
        const int attempt = thread * 1000 + i;
        Told<BeginResult> told;
        replicas[thread]->Begin(BeginOf(key, attempt), Terms(), told.Done());
        told.Await();
        const BeginResult result = *told;
        if (result.verdict != BeginVerdict::kStarted) continue;
        {
          MutexLock lock(&mu);
          if (!started.emplace(key, result.record->attempt_number).second) ++doubles;
        }
        Told<OwnerResult> released;
        replicas[(thread + i) % 3]->Owner(FailOf(key, attempt, Disposition::kNotApplied), Terms(),
                                          released.Done());
        released.Await();
        EXPECT_EQ((*released).verdict, OwnerVerdict::kRecorded);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(doubles.load(), 0);
  EXPECT_GE(started.size(), 5u);
}

}  // namespace
}  // namespace idempotency
