// Begins that wait for another attempt's outcome.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class WaitTest : public EngineTest {
 protected:
  // A Begin of attempt `attempt` that waits; its first decision is made.
  Told<BeginResult> Wait(absl::string_view key, int attempt, absl::Duration wait = kMaxWait) {
    const Told<BeginResult> told = Begin(BeginOf(key, attempt), Terms(wait));
    Step();
    return told;
  }
};

TEST_F(WaitTest, WaiterGetsTheOriginalOutcome) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  EXPECT_FALSE(waiter.IsAnswered());
  EXPECT_EQ(Count(Metric::kWaiting), 1);

  Owner(CompleteOf("order-1", 1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(std::get<Outcome>(*(*waiter).record->answer).body, "the answer to order-1");
  EXPECT_EQ(Count(Metric::kWaiting), 0);
}

// Known fault 18.
TEST_F(WaitTest, WaitingWritesNothing) {
  Start("order-1");
  const Record before = *database_.Find(Key("order-1"));
  const auto waiter = Wait("order-1", 2, absl::Seconds(1));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
  const Record after = *database_.Find(Key("order-1"));
  EXPECT_EQ(after.attempt, before.attempt);
  EXPECT_EQ(after.state, before.state);
  EXPECT_EQ(after.lease_expires_at, before.lease_expires_at);
}

TEST_F(WaitTest, ParkedWaiterIsNotDecidedAgainForNothing) {
  Start("order-1");
  Wait("order-1", 2);
  const size_t begins = database_.CountBatches(BatchKind::kBegin);
  Advance(absl::Seconds(10));
  Step();
  Step();
  EXPECT_EQ(database_.CountBatches(BatchKind::kBegin), begins);
}

TEST_F(WaitTest, FinalFailureIsReplayedToTheWaiter) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Owner(FailOf("order-1", 1, Disposition::kFinal));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitTest, OneWaiterStartsAfterNotAppliedAndTheOthersWaitOn) {
  Start("order-1");
  std::vector<Told<BeginResult>> waiters;
  for (int attempt = 2; attempt <= 4; ++attempt) waiters.push_back(Wait("order-1", attempt));
  Owner(FailOf("order-1", 1, Disposition::kNotApplied));
  Step();
  Step();
  EXPECT_EQ((*waiters[0]).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*waiters[0]).record->attempt_number, 2);
  EXPECT_FALSE(waiters[1].IsAnswered());
  EXPECT_FALSE(waiters[2].IsAnswered());
  EXPECT_EQ(Count(Metric::kWaiting), 2);

  Owner(CompleteOf("order-1", 2));
  Step();
  Step();
  EXPECT_EQ((*waiters[1]).verdict, BeginVerdict::kReplay);
  EXPECT_EQ((*waiters[2]).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitTest, WaiterTakesOverWhenTheLeaseIsOver) {
  options_.policy.skew_margin = absl::Seconds(2);
  BeginItem owner = BeginOf("order-1", 1);
  owner.lease_duration = absl::Seconds(10);
  Begin(std::move(owner));
  Step();
  const auto waiter = Wait("order-1", 2);
  Advance(absl::Seconds(12));
  Step();
  EXPECT_FALSE(waiter.IsAnswered()) << "at the margin's end the lease is not over";
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*waiter).record->unknown_attempts, 1);
  EXPECT_THAT(events_.Seen(), testing::ElementsAre("takeover order-1"));
}

TEST_F(WaitTest, LeaseIsCountedFromTheReadingNotFromTheBegin) {
  BeginItem owner = BeginOf("order-1", 1);
  owner.lease_duration = absl::Seconds(20);
  Begin(std::move(owner));
  Step();
  Advance(absl::Seconds(15));
  const auto waiter = Wait("order-1", 2);
  Advance(absl::Seconds(7) + absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
}

// The database's clock is behind what was counted here: the waiter waits on and does not spin.
TEST_F(WaitTest, LeaseThatTheDatabaseSeesRunningOnIsWaitedFor) {
  BeginItem owner = BeginOf("order-1", 1);
  owner.lease_duration = absl::Seconds(10);
  Begin(std::move(owner));
  Step();
  const auto waiter = Wait("order-1", 2);
  clock_.Advance(absl::Seconds(12) + absl::Milliseconds(1));
  database_.AdvanceClock(absl::Seconds(12));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  const size_t begins = database_.CountBatches(BatchKind::kBegin);
  Advance(absl::Milliseconds(4));
  Step();
  EXPECT_EQ(database_.CountBatches(BatchKind::kBegin), begins);
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
}

TEST_F(WaitTest, RenewKeepsTheWaiterWaiting) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  Advance(absl::Seconds(20));
  Owner(RenewOf("order-1", 1));
  Step();
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
}

TEST_F(WaitTest, WaiterCountsTheRenewedLease) {
  BeginItem owner = BeginOf("order-1", 1);
  owner.lease_duration = absl::Seconds(5);
  Begin(std::move(owner));
  Step();
  const auto waiter = Wait("order-1", 2);
  OwnerItem renew = RenewOf("order-1", 1);
  renew.lease_duration = absl::Seconds(10);
  Owner(std::move(renew));
  Step();
  Step();
  Advance(absl::Seconds(11));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Seconds(1) + absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kStarted);
}

TEST_F(WaitTest, WaitEndsWithALastDecision) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2, absl::Seconds(3));
  Advance(absl::Seconds(3) - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ((*waiter).reading.now, database_.Now());
}

TEST_F(WaitTest, LastDecisionIsMadeByTheWholeTable) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2, absl::Seconds(3));
  // Finished through another replica: nobody here was told.
  ModelStore elsewhere(&database_);
  const OwnerItem complete = CompleteOf("order-1", 1);
  elsewhere.OwnerBatch({&complete});
  Advance(absl::Seconds(3));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitTest, LookupThatSeesTheFinishWakesTheWaiter) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  ModelStore elsewhere(&database_);
  const OwnerItem complete = CompleteOf("order-1", 1);
  elsewhere.OwnerBatch({&complete});
  Lookup("order-1");
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitTest, WaitEndsBeforeTheDeadline) {
  Start("order-1");
  const auto waiter =
      Begin(BeginOf("order-1", 2), Terms(absl::Seconds(20), /*deadline=*/absl::Seconds(2)));
  Step();
  Advance(absl::Seconds(2) - absl::Milliseconds(101));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, DeadlineTooNearForAWaitIsAnsweredAtOnce) {
  Start("order-1");
  const auto told =
      Begin(BeginOf("order-1", 2), Terms(absl::Seconds(20), /*deadline=*/absl::Milliseconds(100)));
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, WaitAboveTheBoundCountsAsTheBound) {
  Start("order-1");
  Owner(RenewOf("order-1", 1));
  Step();
  const auto waiter = Wait("order-1", 2, absl::Minutes(10));
  Advance(kMaxWait - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, NoWaitIsAnsweredAtOnce) {
  Start("order-1");
  const auto told = Wait("order-1", 2, absl::ZeroDuration());
  EXPECT_EQ((*told).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, OtherBodyIsRefusedWithoutWaiting) {
  Start("order-1");
  const auto told = Begin(BeginOf("order-1", 2, /*body=*/2), Terms(absl::Seconds(20)));
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kKeyReused);
}

TEST_F(WaitTest, OtherBodyDoesNotWakeTheWaiters) {
  Start("order-1");
  Wait("order-1", 2);
  Begin(BeginOf("order-1", 3, /*body=*/2));
  Step();
  const size_t batches = database_.Batches().size();
  Step();
  EXPECT_EQ(database_.Batches().size(), batches);
}

TEST_F(WaitTest, WaitsOfOneKeyEndAtTheirBound) {
  options_.waits_per_key_max = 2;
  Start("order-1");
  EXPECT_FALSE(Wait("order-1", 2).IsAnswered());
  EXPECT_FALSE(Wait("order-1", 3).IsAnswered());
  const auto past = Wait("order-1", 4);
  EXPECT_EQ((*past).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kWaitsRefused), 1);
}

TEST_F(WaitTest, OtherKeyHasItsOwnBound) {
  options_.waits_per_key_max = 1;
  Start("order-1");
  Start("order-2");
  EXPECT_FALSE(Wait("order-1", 2).IsAnswered());
  EXPECT_FALSE(Wait("order-2", 2).IsAnswered());
}

TEST_F(WaitTest, WaitsOfTheReplicaEndAtTheirBound) {
  options_.waits_max = 2;
  for (const char* key : {"a", "b", "c"}) Start(key);
  EXPECT_FALSE(Wait("a", 2).IsAnswered());
  EXPECT_FALSE(Wait("b", 2).IsAnswered());
  EXPECT_EQ((*Wait("c", 2)).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, WaitsOfOneMerchantEndAtTheirBoundOverAllKeysAndLanes) {
  options_.lanes = 4;
  options_.waits_per_merchant_max = 3;
  for (const char* key : {"a", "b", "c", "d"}) Start(key);
  std::vector<Told<BeginResult>> waiting;
  for (const char* key : {"a", "b", "c"}) waiting.push_back(Wait(key, 2));
  EXPECT_EQ((*Wait("d", 2)).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kWaitsRefused), 1);
  for (const auto& waiter : waiting) EXPECT_FALSE(waiter.IsAnswered());

  BeginItem of_other = BeginOf("a", 1);
  of_other.key = Key("a", "other");
  Begin(of_other);
  Step();
  of_other.attempt = Attempt(2);
  const auto other = Begin(of_other, Terms(kMaxWait));
  Step();
  EXPECT_FALSE(other.IsAnswered());
  EXPECT_EQ(Count(Metric::kWaiting), 4);

  // One that ends makes room for the next.
  Owner(CompleteOf("a", 1));
  Step();
  Step();
  EXPECT_EQ((*waiting[0]).verdict, BeginVerdict::kReplay);
  EXPECT_FALSE(Wait("d", 3).IsAnswered());
}

TEST_F(WaitTest, WaitsTakeAtMostHalfOfTheCallsInFlight) {
  options_.calls_in_flight_max = 4;
  Start("order-1");
  EXPECT_FALSE(Wait("order-1", 2).IsAnswered());
  EXPECT_FALSE(Wait("order-1", 3).IsAnswered());
  EXPECT_EQ((*Wait("order-1", 4)).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, EndedWaitMakesRoom) {
  options_.waits_max = 1;
  Start("order-1");
  Wait("order-1", 2, absl::Seconds(1));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_FALSE(Wait("order-1", 3).IsAnswered());
}

TEST_F(WaitTest, WaitersWhoseCallersLeftMakeRoomWhenTheBoundIsReached) {
  options_.waits_per_key_max = 1;
  Start("order-1");
  CallTerms terms = Terms(absl::Seconds(20));
  auto left = std::make_shared<std::atomic<bool>>(false);
  terms.caller_left = left;
  const auto departed = Begin(BeginOf("order-1", 2), std::move(terms));
  Step();
  left->store(true);
  EXPECT_FALSE(Wait("order-1", 3).IsAnswered());
  Step();
  EXPECT_EQ(departed.Failed(), Fault::kCancelled);
}

TEST_F(WaitTest, BeginWhoseCallerLeftIsAnsweredAndNotParked) {
  Start("order-1");
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  database_.CloseGate();
  CallTerms terms = Terms(absl::Seconds(20));
  auto left = std::make_shared<std::atomic<bool>>(false);
  terms.caller_left = left;
  Told<BeginResult> told;
  started->Begin(BeginOf("order-1", 2), std::move(terms), told.Done());
  ASSERT_TRUE(database_.AwaitAtGate(1));
  left->store(true);
  database_.OpenGate();
  told.Await();
  EXPECT_EQ((*told).verdict, BeginVerdict::kInProgress);
}

TEST_F(WaitTest, UnknownCompleteMakesTheWaiterLook) {
  Start("order-1");
  const auto waiter = Wait("order-1", 2);
  database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kCommitUnknown, "lost"),
                     FaultMoment::kAfterCommit);
  Owner(CompleteOf("order-1", 1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(WaitTest, UnknownBeginMakesTheWaiterLook) {
  Start("order-1");
  Wait("order-1", 2);
  ModelStore elsewhere(&database_);
  const OwnerItem release = FailOf("order-1", 1, Disposition::kNotApplied);
  elsewhere.OwnerBatch({&release});
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kCommitUnknown, "lost"),
                     FaultMoment::kAfterCommit);
  Begin(BeginOf("order-1", 3));
  Step();
  const size_t begins = database_.CountBatches(BatchKind::kBegin);
  Step();
  EXPECT_EQ(database_.CountBatches(BatchKind::kBegin), begins + 1);
}

TEST_F(WaitTest, HeldRecordEndsTheWaitWithNeedsResolution) {
  BeginItem owner = BeginOf("order-1", 1);
  owner.hold = true;
  owner.lease_duration = absl::Seconds(10);
  Begin(std::move(owner));
  Step();
  const auto waiter = Wait("order-1", 2);
  Advance(absl::Seconds(12) + absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kNeedsResolution);
}

TEST_F(WaitTest, WaitEndsWhileTheLanesThreadSleeps) {
  Metrics metrics;
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), SystemClock(), &metrics, &events_);
  const CallTerms terms = {.deadline = SystemClock()->BootTime() + absl::Hours(1)};
  Told<BeginResult> owner;
  started->Begin(BeginOf("order-1", 1), terms, owner.Done());
  CallTerms waiting = terms;
  waiting.wait = absl::Milliseconds(20);
  Told<BeginResult> waiter;
  started->Begin(BeginOf("order-1", 2), waiting, waiter.Done());
  waiter.Await();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
}

}  // namespace
}  // namespace idempotency
