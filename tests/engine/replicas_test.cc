// Three replicas' engines on one real PostgreSQL: what one does, the waits of the others see.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/engine/engine_fixture.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

constexpr int kReplicas = 3;

class ReplicasTest : public PostgresFixture {
 protected:
  ReplicasTest() {
    options_.waits_per_key_max = 1000;
    options_.policy.skew_margin = absl::Milliseconds(100);
    options_.policy.shortest_lease = absl::Milliseconds(1);
    for (Node& node : nodes_) {
      PostgresStoreOptions store_options = Options();
      store_options.policy = options_.policy;
      node.engine = MakeEngine(options_, MakePostgresStoreFactory(store_options, &node.metrics),
                               SystemClock(), &node.metrics, &events_);
    }
  }

  Told<BeginResult> Begin(int replica, BeginItem item, absl::Duration wait = absl::ZeroDuration()) {
    Told<BeginResult> told;
    CallTerms terms = Terms();
    terms.wait = wait;
    nodes_[replica].engine->Begin(std::move(item), std::move(terms), told.Done());
    return told;
  }
  BeginResult Begun(int replica, BeginItem item) {
    const Told<BeginResult> told = Begin(replica, std::move(item));
    told.Await();
    return *told;
  }
  OwnerResult Owner(int replica, OwnerItem item) {
    Told<OwnerResult> told;
    nodes_[replica].engine->Owner(std::move(item), Terms(), told.Done());
    told.Await();
    return *told;
  }
  // Begins that wait on that replica; returns when they are parked.
  std::vector<Told<BeginResult>> Wait(int replica, absl::string_view key, int count,
                                      absl::Duration wait = kMaxWait) {
    std::vector<Told<BeginResult>> told;
    const int64_t before = Count(replica, Metric::kWaiting);
    for (int i = 0; i < count; ++i) {
      told.push_back(Begin(replica, BeginOf(key, 100 * (replica + 1) + i), wait));
    }
    EXPECT_TRUE(Eventually([&] { return Count(replica, Metric::kWaiting) == before + count; }));
    return told;
  }
  int64_t Count(int replica, Metric metric) { return nodes_[replica].metrics.Value(metric); }
  // Until what is waited for cannot have gone unseen.
  void AwaitProbes(int replica, int64_t more) {
    const int64_t before = Count(replica, Metric::kWaitProbes);
    EXPECT_TRUE(Eventually([&] { return Count(replica, Metric::kWaitProbes) >= before + more; }));
  }

  // Ends every session of the database.
  void TerminateAll() {
    ServerValue(absl::StrCat(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '",
        DatabaseName(conninfo()), "'"));
  }

  // The one that started; fails when it is not exactly one. The others go on waiting.
  static size_t AwaitOneStarted(const std::vector<Told<BeginResult>>& waits) {
    EXPECT_TRUE(Eventually([&] {
      return std::any_of(waits.begin(), waits.end(),
                         [](const auto& wait) { return wait.IsAnswered(); });
    }));
    for (size_t i = 0; i < waits.size(); ++i) {
      if (!waits[i].IsAnswered()) continue;
      EXPECT_EQ((*waits[i]).verdict, BeginVerdict::kStarted);
      return i;
    }
    return 0;
  }
  static void ExpectReplays(const std::vector<Told<BeginResult>>& waits, size_t but) {
    for (size_t i = 0; i < waits.size(); ++i) {
      if (i == but) continue;
      waits[i].Await();
      EXPECT_EQ((*waits[i]).verdict, BeginVerdict::kReplay) << i;
    }
  }
  std::vector<Told<BeginResult>> WaitOnTwo(absl::string_view key, int each) {
    std::vector<Told<BeginResult>> waits = Wait(1, key, each);
    for (auto& wait : Wait(2, key, each)) waits.push_back(std::move(wait));
    return waits;
  }
  static int AttemptOf(size_t place, int each) {
    const int at = static_cast<int>(place);
    return at < each ? 200 + at : 300 + at - each;
  }

  struct Node {
    Metrics metrics;
    std::unique_ptr<Engine> engine;
  };
  static CallTerms Terms() { return {.deadline = SystemClock()->BootTime() + absl::Minutes(2)}; }

  EngineOptions options_;
  RecordedEvents events_;
  Node nodes_[kReplicas];
};

TEST_F(ReplicasTest, WaitersGetTheOutcomeRecordedThroughAnother) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = WaitOnTwo("order-1", 5);
  Owner(0, CompleteOf("order-1", 1));
  for (const auto& wait : waits) {
    wait.Await();
    EXPECT_EQ((*wait).verdict, BeginVerdict::kReplay);
    EXPECT_EQ(std::get<Outcome>(*(*wait).record->answer).body, "the answer to order-1");
  }
  for (const int replica : {1, 2}) {
    EXPECT_EQ(Count(replica, Metric::kWaitWokenByProbe), 5);
    EXPECT_EQ(Count(replica, Metric::kWaiting), 0);
    EXPECT_EQ(Count(replica, Metric::kWaitProbesFailed), 0);
  }
}

TEST_F(ReplicasTest, ReleaseThroughAnotherLetsOneOfAllWaitersStart) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = WaitOnTwo("order-1", 4);
  Owner(0, FailOf("order-1", 1, Disposition::kNotApplied));
  const size_t starter = AwaitOneStarted(waits);
  EXPECT_EQ((*waits[starter]).record->attempt_number, 2);
  AwaitProbes(1, 4);
  AwaitProbes(2, 4);
  EXPECT_EQ(Count(1, Metric::kWaiting) + Count(2, Metric::kWaiting), 7);
  Owner(0, CompleteOf("order-1", AttemptOf(starter, 4)));
  ExpectReplays(waits, starter);
}

TEST_F(ReplicasTest, UnknownThroughAnotherIsTakenOverByOneOfAllWaiters) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = WaitOnTwo("order-1", 4);
  Owner(0, FailOf("order-1", 1, Disposition::kUnknown));
  const size_t starter = AwaitOneStarted(waits);
  EXPECT_EQ((*waits[starter]).record->attempt_number, 2);
  EXPECT_EQ((*waits[starter]).record->unknown_attempts, 1);
  Owner(0, CompleteOf("order-1", AttemptOf(starter, 4)));
  ExpectReplays(waits, starter);
}

TEST_F(ReplicasTest, LeaseThatIsOverIsTakenOverByOneOfAllWaiters) {
  const WatchedClock watched(conninfo());
  BeginItem first = BeginOf("order-1", 1);
  first.lease_duration = absl::Milliseconds(500);
  Begun(0, std::move(first));
  const auto waits = WaitOnTwo("order-1", 4);
  const size_t starter = AwaitOneStarted(waits);
  EXPECT_EQ((*waits[starter]).record->attempt_number, 2);
  Owner(0, CompleteOf("order-1", AttemptOf(starter, 4)));
  ExpectReplays(waits, starter);
}

TEST_F(ReplicasTest, RenewThroughAnotherKeepsTheWaitersFromTheWork) {
  BeginItem first = BeginOf("order-1", 1);
  first.lease_duration = absl::Seconds(2);
  Begun(0, std::move(first));
  const auto waits = Wait(1, "order-1", 2, absl::Seconds(4));
  EXPECT_EQ(Owner(0, RenewOf("order-1", 1)).verdict, OwnerVerdict::kRenewed);
  for (const auto& wait : waits) {
    wait.Await();
    EXPECT_EQ((*wait).verdict, BeginVerdict::kInProgress);
    EXPECT_EQ((*wait).record->attempt_number, 1);
    EXPECT_GT(LeaseRemaining(*(*wait).record, (*wait).reading.now), absl::Seconds(30));
  }
}

// Only its creation tells the record from the one that was waited for.
TEST_F(ReplicasTest, RecordBegunAnewThroughAnotherIsWaitedFor) {
  const BeginResult first = Begun(0, BeginOf("order-1", 1));
  const auto waits = Wait(1, "order-1", 3);
  const std::string attempt(reinterpret_cast<const char*>(Attempt(2).bytes.data()), 16);
  std::string hex;
  for (const char byte : attempt) {
    absl::StrAppend(&hex, absl::Hex(static_cast<uint8_t>(byte), absl::kZeroPad2));
  }
  Sql(
      absl::StrCat("UPDATE idempotency_record SET created_at = created_at + interval '1 us', "
                   "attempt_hash = '",
                   hex, "'"));
  AwaitProbes(1, 4);
  EXPECT_EQ(Count(1, Metric::kWaitWokenByProbe), 3);
  EXPECT_EQ(Count(1, Metric::kWaiting), 3);
  Owner(0, CompleteOf("order-1", 2));
  for (const auto& wait : waits) {
    wait.Await();
    EXPECT_EQ((*wait).verdict, BeginVerdict::kReplay);
    EXPECT_EQ((*wait).record->created_at, first.record->created_at + absl::Microseconds(1));
  }
}

TEST_F(ReplicasTest, PurgedRecordIsBegunAnewByOneOfAllWaiters) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = WaitOnTwo("order-1", 3);
  Sql("DELETE FROM idempotency_record");
  const size_t starter = AwaitOneStarted(waits);
  EXPECT_EQ((*waits[starter]).record->attempt_number, 1);
  Owner(0, CompleteOf("order-1", AttemptOf(starter, 3)));
  ExpectReplays(waits, starter);
}

TEST_F(ReplicasTest, WaitingWritesNothing) {
  Begun(0, BeginOf("order-1", 1));
  const std::string version =
      "SELECT xmin::text || ctid::text || xmax::text FROM idempotency_record";
  const std::string before = Value(version);
  const auto waits = WaitOnTwo("order-1", 3);
  AwaitProbes(1, 10);
  AwaitProbes(2, 10);
  EXPECT_EQ(Value(version), before);
  Owner(0, CompleteOf("order-1", 1));
  ExpectReplays(waits, waits.size());
}

TEST_F(ReplicasTest, CompleteHeldUpByALockIsSeenWhenItIsRecorded) {
  Begun(0, BeginOf("order-1", 1));
  RawSession foreign(conninfo());
  foreign.Sql("BEGIN; SELECT FROM idempotency_record FOR UPDATE");
  const auto waits = Wait(1, "order-1", 3);
  Told<OwnerResult> complete;
  nodes_[0].engine->Owner(CompleteOf("order-1", 1), Terms(), complete.Done());
  EXPECT_TRUE(Eventually([&] { return Count(0, Metric::kSlowLaneCalls) == 1; }));
  for (const auto& wait : waits) EXPECT_FALSE(wait.IsAnswered());
  foreign.Sql("ROLLBACK");
  ExpectReplays(waits, waits.size());
  complete.Await();
}

TEST_F(ReplicasTest, WaitOutlivesADatabaseThatIsAwayForAWhile) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = Wait(1, "order-1", 3);
  AllowConnections(false);
  TerminateAll();
  EXPECT_TRUE(Eventually([&] { return Count(1, Metric::kWaitProbesFailed) > 0; }));
  for (const auto& wait : waits) EXPECT_FALSE(wait.IsAnswered());
  AllowConnections(true);
  EXPECT_TRUE(Eventually([&] {
    Told<OwnerResult> complete;
    nodes_[0].engine->Owner(CompleteOf("order-1", 1), Terms(), complete.Done());
    complete.Await();
    return complete.Answer().ok();
  }));
  ExpectReplays(waits, waits.size());
}

TEST_F(ReplicasTest, WaitEndsAtItsTimeAlsoWhileTheDatabaseIsAway) {
  Begun(0, BeginOf("order-1", 1));
  const auto waits = Wait(1, "order-1", 3, absl::Seconds(1));
  AllowConnections(false);
  TerminateAll();
  for (const auto& wait : waits) {
    wait.Await();
    EXPECT_EQ(wait.Failed(), Fault::kStoreUnavailable);
  }
  AllowConnections(true);
}

TEST_F(ReplicasTest, DrainingReplicaAnswersItsWaitersAndTheOthersWaitOn) {
  Begun(0, BeginOf("order-1", 1));
  const auto leaving = Wait(1, "order-1", 3);
  const auto staying = Wait(2, "order-1", 3);
  nodes_[1].engine->Drain();
  for (const auto& wait : leaving) EXPECT_EQ((*wait).verdict, BeginVerdict::kInProgress);
  Owner(0, CompleteOf("order-1", 1));
  ExpectReplays(staying, staying.size());
}

// 1,000 at once on one key: one starts, everybody else gets its outcome.
TEST_F(ReplicasTest, OfAThousandWaitingBeginsOneStartsAndTheOthersGetItsOutcome) {
  constexpr int kCalls = 1000;
  std::vector<Told<BeginResult>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(Begin(i % kReplicas, BeginOf("hot", i), kMaxWait));
  }
  const size_t starter = AwaitOneStarted(calls);
  Owner(0, CompleteOf("hot", static_cast<int>(starter)));
  ExpectReplays(calls, starter);
  EXPECT_EQ(Value("SELECT attempt_number FROM idempotency_record"), "1");
}

}  // namespace
}  // namespace idempotency
