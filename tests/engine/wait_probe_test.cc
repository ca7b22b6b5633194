// Begins that wait for what another replica does: seen by probes.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/waiters.h"
#include "server/record/limit.h"
#include "tests/engine/call_util.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

constexpr absl::Duration kInterval = Waiters::kProbeInterval;

class WaitProbeTest : public EngineTest {
 protected:
  Told<BeginResult> Wait(absl::string_view key, int attempt, absl::Duration wait = kMaxWait) {
    const Told<BeginResult> told = Begin(BeginOf(key, attempt), Terms(wait));
    Step();
    return told;
  }
  void StartFor(absl::string_view key, absl::Duration lease) {
    BeginItem item = BeginOf(key, 1);
    item.lease_duration = lease;
    Begin(std::move(item));
    Step();
  }
  OwnerResult Elsewhere(const OwnerItem& item) {
    const OwnerItem* const items[] = {&item};
    return *ModelStore(&database_).OwnerBatch(items)[0];
  }
  BeginResult Elsewhere(const BeginItem& item) {
    const BeginItem* const items[] = {&item};
    return *ModelStore(&database_).BeginBatch(items)[0];
  }
  // Lets the time pass to the next probe, and decides what it wakes.
  void PassProbe() {
    Advance(kInterval);
    Step();
    Step();
  }
  size_t Probes() { return database_.CountBatches(BatchKind::kProbe); }
  size_t Begins() { return database_.CountBatches(BatchKind::kBegin); }
  // Of each probe so far.
  std::vector<size_t> ProbedItems() {
    std::vector<size_t> items;
    for (const SeenBatch& batch : database_.Batches()) {
      if (batch.kind == BatchKind::kProbe) items.push_back(batch.items);
    }
    return items;
  }
  // In `span`, with a step every millisecond.
  size_t ProbesIn(absl::Duration span) {
    const size_t before = Probes();
    for (absl::Duration passed; passed < span; passed += absl::Milliseconds(1)) {
      Advance(absl::Milliseconds(1));
      Step();
    }
    return Probes() - before;
  }
};

TEST_F(WaitProbeTest, FinishElsewhereIsSeenByTheNextProbe) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Elsewhere(CompleteOf("order-1", 1));
  Advance(kInterval - absl::Milliseconds(1));
  Step();
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(std::get<Outcome>(*(*waiter).record->answer).body, "the answer to order-1");
  EXPECT_EQ(Count(Metric::kWaitWokenByProbe), 1);
  EXPECT_EQ(Count(Metric::kWaitWokenHere), 0);
}

TEST_F(WaitProbeTest, FinishHereIsCountedAsSeenHere) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Owner(CompleteOf("order-1", 1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(Count(Metric::kWaitWokenHere), 1);
}

TEST_F(WaitProbeTest, EndOfTheWaitIsCountedAsTime) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2, absl::Seconds(1));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_TRUE(waiter.IsAnswered());
  EXPECT_EQ(Count(Metric::kWaitWokenByTime), 1);
  EXPECT_EQ(Count(Metric::kWaitWokenByProbe), 0);
}

TEST_F(WaitProbeTest, UnchangedRecordIsProbedAndNotDecidedAgain) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  const size_t begins = Begins();
  PassProbe();
  EXPECT_EQ(Probes(), 1u);
  EXPECT_EQ(Begins(), begins);
  EXPECT_FALSE(waiter.IsAnswered());
}

TEST_F(WaitProbeTest, NobodyWaitsNothingIsProbed) {
  Start("order-1");
  EXPECT_EQ(ProbesIn(absl::Milliseconds(200)), 0u);
}

TEST_F(WaitProbeTest, WaitsFirstTwoSecondsAreProbedOftenThenLessOften) {
  Start("order-1");
  Wait("order-1", 2);
  EXPECT_EQ(ProbesIn(absl::Seconds(1)), 40u);
  EXPECT_EQ(ProbesIn(absl::Seconds(1)), 40u);
  EXPECT_EQ(ProbesIn(absl::Seconds(2)), 8u);
}

TEST_F(WaitProbeTest, YoungWaitQuickensTheProbesOfItsKey) {
  Start("order-1");
  Wait("order-1", 2);
  Advance(absl::Seconds(10));
  Step();
  EXPECT_EQ(ProbesIn(absl::Seconds(1)), 4u);
  Wait("order-1", 3);
  EXPECT_EQ(ProbesIn(absl::Seconds(1)), 40u);
}

TEST_F(WaitProbeTest, AllKeysOfTheLaneAreProbedTogether) {
  for (const char* key : {"b", "a", "c"}) {
    Start(key);
    Wait(key, 2);
    Advance(absl::Milliseconds(3));
  }
  Wait("a", 3);
  Advance(kInterval - absl::Milliseconds(9));
  Step();
  EXPECT_EQ(ProbedItems(), std::vector<size_t>{3});
  EXPECT_EQ(Count(Metric::kWaitProbes), 1);
  EXPECT_EQ(Count(Metric::kWaitProbedKeys), 3);
}

TEST_F(WaitProbeTest, ProbeIsBoundedInItemsAndTakesSeveralRounds) {
  options_.batch_max_items = 2;
  for (int i = 0; i < 5; ++i) {
    Start("order-" + std::to_string(i));
    Wait("order-" + std::to_string(i), 2);
  }
  const OwnerItem complete = CompleteOf("order-4", 1);
  Elsewhere(complete);
  Advance(kInterval);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(ProbedItems(), (std::vector<size_t>{2, 2, 1}));
  EXPECT_EQ(Count(Metric::kWaiting), 4);
}

TEST_F(WaitProbeTest, ReleaseElsewhereLetsOneWaiterStartAndTheOthersWaitOn) {
  Start("order-1");
  const auto second = Wait("order-1", 2);
  const auto third = Wait("order-1", 3);
  Elsewhere(FailOf("order-1", 1, Disposition::kNotApplied));
  PassProbe();
  EXPECT_EQ((*second).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*second).record->attempt_number, 2);
  EXPECT_FALSE(third.IsAnswered());
  Elsewhere(CompleteOf("order-1", 2));
  PassProbe();
  EXPECT_EQ((*third).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitProbeTest, UnknownElsewhereIsTakenOver) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Elsewhere(FailOf("order-1", 1, Disposition::kUnknown));
  PassProbe();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*waiter).record->unknown_attempts, 1);
}

TEST_F(WaitProbeTest, TakeoverElsewhereIsWaitedFor) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Elsewhere(FailOf("order-1", 1, Disposition::kUnknown));
  Elsewhere(BeginOf("order-1", 3));
  PassProbe();
  EXPECT_FALSE(waiter.IsAnswered());
  Elsewhere(CompleteOf("order-1", 3));
  PassProbe();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  EXPECT_EQ((*waiter).record->attempt_number, 2);
}

TEST_F(WaitProbeTest, RecordThatIsGoneIsBegunAnew) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  database_.Erase(Key("order-1"));
  PassProbe();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*waiter).record->attempt_number, 1);
}

TEST_F(WaitProbeTest, RecordBegunAnewWithAnotherBodyIsRefused) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  database_.Erase(Key("order-1"));
  database_.AdvanceClock(absl::Microseconds(1));
  Elsewhere(BeginOf("order-1", 3, /*body=*/2));
  PassProbe();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kKeyReused);
}

// The same state and attempt number: only its creation tells that it is another record.
TEST_F(WaitProbeTest, RecordBegunAnewIsWaitedFor) {
  StartFor("order-1", absl::Seconds(60));
  const auto waiter = Wait("order-1", 2);
  const size_t begins = Begins();
  Record other = *database_.Find(Key("order-1"));
  other.created_at += absl::Microseconds(1);
  other.attempt = Attempt(3);
  database_.Put(other);
  PassProbe();
  EXPECT_EQ(Begins(), begins + 1);
  EXPECT_FALSE(waiter.IsAnswered());
  Elsewhere(CompleteOf("order-1", 3));
  PassProbe();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitProbeTest, RenewElsewhereProlongsTheWait) {
  StartFor("order-1", absl::Seconds(5));
  const auto waiter = Wait("order-1", 2);
  Advance(absl::Seconds(4));
  OwnerItem renew = RenewOf("order-1", 1);
  renew.lease_duration = absl::Seconds(10);
  Elsewhere(renew);
  // No probe: only the end of the lease that the waiter knows of makes it look.
  Advance(absl::Seconds(3) + absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered()) << "the lease was renewed";
  Advance(absl::Seconds(9) - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered()) << "at the margin's end the lease is not over";
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
}

TEST_F(WaitProbeTest, ThousandWokenByOneProbeAreDecidedFromOneRow) {
  options_.waits_per_key_max = 1000;
  Start("hot");
  std::vector<Told<BeginResult>> waiters;
  for (int i = 0; i < 1000; ++i) waiters.push_back(Begin(BeginOf("hot", 2 + i), Terms(kMaxWait)));
  Step();
  EXPECT_EQ(Count(Metric::kWaiting), 1000);
  Elsewhere(CompleteOf("hot", 1));
  const size_t batches = database_.Batches().size();
  PassProbe();
  for (const auto& waiter : waiters) EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  const std::vector<SeenBatch> seen = database_.Batches();
  ASSERT_EQ(seen.size(), batches + 2);
  EXPECT_EQ(seen[batches].kind, BatchKind::kProbe);
  EXPECT_EQ(seen[batches + 1].kind, BatchKind::kBegin);
  EXPECT_EQ(seen[batches + 1].items, 1u);
}

TEST_F(WaitProbeTest, FailedProbeChangesNothingAndIsCounted) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Elsewhere(CompleteOf("order-1", 1));
  database_.FailNext(BatchKind::kProbe, MakeFault(Fault::kStoreUnavailable, "away"));
  PassProbe();
  EXPECT_FALSE(waiter.IsAnswered());
  EXPECT_EQ(Count(Metric::kWaitProbesFailed), 1);
  Advance(absl::Seconds(1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(Count(Metric::kWaitProbesFailed), 1);
}

TEST_F(WaitProbeTest, DatabaseThatIsAwayIsProbedEverLessOften) {
  Start("order-1");
  Wait("order-1", 2);
  for (int i = 0; i < 100; ++i) {
    database_.FailNext(BatchKind::kProbe, MakeFault(Fault::kStoreUnavailable, "away"));
  }
  // At 25 ms, and then after 250 ms, 500 ms, 1 s and 2 s.
  EXPECT_EQ(ProbesIn(absl::Milliseconds(1800)), 4u);
  EXPECT_EQ(ProbesIn(absl::Seconds(6)), 3u);
}

TEST_F(WaitProbeTest, ProbeThatWorksAgainEndsThePause) {
  Start("order-1");
  Wait("order-1", 2);
  database_.FailNext(BatchKind::kProbe, MakeFault(Fault::kStoreUnavailable, "away"));
  EXPECT_EQ(ProbesIn(absl::Milliseconds(275)), 2u);
  EXPECT_EQ(ProbesIn(absl::Milliseconds(250)), 10u);
}

TEST_F(WaitProbeTest, WaitOutlivesADatabaseThatIsAwayForAWhile) {
  StartFor("order-1", absl::Seconds(5));
  const auto waiter = Wait("order-1", 2, absl::Seconds(20));
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kStoreUnavailable, "away"));
  Advance(absl::Seconds(7) + absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered()) << "it has time left";
  Advance(absl::Milliseconds(250));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
}

TEST_F(WaitProbeTest, WaitEndsAtItsTimeAlsoWhileTheDatabaseIsAway) {
  options_.waits_per_key_max = 100;
  StartFor("order-1", absl::Seconds(1));
  std::vector<Told<BeginResult>> waiters;
  for (int i = 0; i < 10; ++i) {
    waiters.push_back(Begin(BeginOf("order-1", 2 + i), Terms(absl::Seconds(20))));
  }
  Step();
  for (int i = 0; i < 1000; ++i) {
    database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kStoreUnavailable, "away"));
    database_.FailNext(BatchKind::kProbe, MakeFault(Fault::kStoreUnavailable, "away"));
  }
  const size_t begins = Begins();
  for (int i = 0; i < 199; ++i) {
    Advance(absl::Milliseconds(100));
    Step();
  }
  for (const auto& waiter : waiters) EXPECT_FALSE(waiter.IsAnswered());
  EXPECT_LE(Begins() - begins, 80u) << "one try each 250 ms for all of them";
  Advance(absl::Milliseconds(100));
  for (int i = 0; i < 10; ++i) Step();
  for (const auto& waiter : waiters) EXPECT_EQ(waiter.Failed(), Fault::kStoreUnavailable);
  EXPECT_EQ(Count(Metric::kWaiting), 0);
}

// The guard may hold expiry up, or the database's clock be set back: nobody hammers.
TEST_F(WaitProbeTest, LeaseThatWillNotEndIsAskedForEverLessOften) {
  StartFor("order-1", absl::Seconds(10));
  const auto waiter = Wait("order-1", 2);
  clock_.Advance(absl::Seconds(12) + absl::Milliseconds(1));
  database_.AdvanceClock(absl::Seconds(12));
  const size_t begins = Begins();
  for (int i = 0; i < 2000; ++i) {
    clock_.Advance(absl::Milliseconds(1));
    Step();
  }
  EXPECT_GE(Begins() - begins, 8u);
  EXPECT_LE(Begins() - begins, 14u);
  EXPECT_FALSE(waiter.IsAnswered());
}

TEST_F(WaitProbeTest, DrainingProbesNoMore) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Advance(kInterval);
  engine().Drain();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Probes(), 0u);
}

// A unit test: only a clock that runs on shows how long a probe took.
TEST(Waiters, RestsThreeTimesAsLongAsAProbeTook) {
  Metrics metrics;
  Admission admission({.calls = 16, .waits = 8, .waits_of_merchant = 8}, &metrics);
  Waiters waiters(Policy(), 8, &admission, &metrics);
  auto record = std::make_shared<Record>();
  record->key = Key("order-1");
  record->lease_expires_at = absl::UnixEpoch() + absl::Hours(1);
  const BeginResult told{.record = record, .reading = {.now = absl::UnixEpoch()}};
  const absl::Duration start = absl::Seconds(1000);
  auto call = MakeBegin(BeginOf("order-1", 2), {});
  call->wait_ends_at = start + absl::Seconds(10);
  ASSERT_TRUE(waiters.Park(call, told, start));
  const absl::Duration sent = start + kInterval;
  ASSERT_EQ(waiters.DueProbes(sent, 8).size(), 1u);
  const absl::Duration took = absl::Milliseconds(40);
  waiters.Probed({ProbeResult{.sign = RecordSign{record->created_at, record->state,
                                                 record->attempt_number, record->lease_expires_at},
                              .now = absl::UnixEpoch()}},
                 sent, sent + took);
  EXPECT_EQ(waiters.NextDue(), sent + 4 * took);
  EXPECT_TRUE(waiters.DueProbes(sent + 4 * took - absl::Milliseconds(1), 8).empty());
  EXPECT_EQ(waiters.DueProbes(sent + 4 * took, 8).size(), 1u);
}

}  // namespace
}  // namespace idempotency
