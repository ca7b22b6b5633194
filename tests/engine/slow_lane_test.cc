// Rows that another transaction holds.
#include "server/engine/slow_lane.h"

#include <atomic>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/engine/slow_lane_fixture.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(SlowLaneTest, LockedBeginIsTriedAgain) {
  Lock("order-1");
  const auto told = Begin(BeginOf("order-1", 1));
  Step();
  EXPECT_FALSE(told.IsAnswered());
  EXPECT_EQ(Count(Metric::kSlowLane), 1);
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), 0);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
}

TEST_F(SlowLaneTest, LockedCompleteIsTriedAgain) {
  Start("order-1");
  Lock("order-1");
  const auto told = Owner(CompleteOf("order-1", 1));
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kRecorded);
}

TEST_F(SlowLaneTest, LaneGoesOnBesideALockedRow) {
  Lock("locked");
  Begin(BeginOf("locked", 1), Terms(absl::ZeroDuration(), absl::Seconds(5)));
  const auto mate = Begin(BeginOf("mate", 1));
  Step();
  EXPECT_EQ((*mate).verdict, BeginVerdict::kStarted);
  const auto next = Begin(BeginOf("next", 1));
  Step();
  EXPECT_EQ((*next).verdict, BeginVerdict::kStarted);
  Advance(absl::Seconds(5));
  Step();
}

// The lane itself never touches the locked key again while the slow lane has it.
TEST_F(SlowLaneTest, FurtherCallsOfTheKeyFollowIt) {
  Start("order-1");
  Lock("order-1");
  const auto begin = Begin(BeginOf("order-1", 2));
  Step();
  const size_t begins = database_.CountBatches(BatchKind::kBegin);
  const auto further = Begin(BeginOf("order-1", 3));
  const auto complete = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_EQ(database_.CountBatches(BatchKind::kBegin), begins);
  EXPECT_EQ(Count(Metric::kSlowLane), 3);
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*begin).verdict, BeginVerdict::kReplay);
  EXPECT_EQ((*further).verdict, BeginVerdict::kReplay);
}

// What it is told needs only a plain read, which no lock stops.
TEST_F(SlowLaneTest, BeginBehindALockedCompleteIsAnsweredAtOnce) {
  Start("order-1");
  LockForOwners(2);
  const auto complete = Owner(CompleteOf("order-1", 1));
  const auto begin = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ((*begin).verdict, BeginVerdict::kInProgress);
  const auto later = Begin(BeginOf("order-1", 3));
  Step();
  EXPECT_EQ((*later).verdict, BeginVerdict::kInProgress);
  EXPECT_FALSE(complete.IsAnswered());
  AdvanceAndStep();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
}

TEST_F(SlowLaneTest, WaitBehindALockedCompleteEndsBeforeItsDeadline) {
  Start("order-1");
  LockForOwners(100);
  Owner(CompleteOf("order-1", 1));
  const auto waiter = Begin(BeginOf("order-1", 2), Terms(kMaxWait, absl::Seconds(5)));
  Step();
  Advance(absl::Seconds(5) - kWaitEndsBeforeDeadline - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
  Advance(kFinishPatience);
  Step();
}

// Its row was locked for Begins, too, and then no more: the Complete's lock does not hold them up.
TEST_F(SlowLaneTest, BeginInTheSlowLaneIsTriedBesideALockedComplete) {
  Start("order-1");
  Lock("order-1");
  const auto begin = Begin(BeginOf("order-1", 2));
  const auto waiter = Begin(BeginOf("order-1", 3), Terms(kMaxWait));
  const auto complete = Owner(CompleteOf("order-1", 1));
  Step();
  Step();
  ASSERT_EQ(Count(Metric::kSlowLaneCalls), 3);
  Unlock("order-1");
  LockForOwners(1);
  AdvanceAndStep();
  EXPECT_EQ((*begin).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), 1);
  Step();
  EXPECT_EQ(Count(Metric::kWaiting), 1) << "in its own lane";
  AdvanceAndStep();
  Step();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(SlowLaneTest, FinishingCallsOfOneKeyKeepTheirOrder) {
  Start("order-1");
  Lock("order-1");
  const auto first = Owner(CompleteOf("order-1", 1, /*status_code=*/201));
  const auto second = Owner(CompleteOf("order-1", 1, /*status_code=*/202));
  Step();
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  Step();
  EXPECT_EQ((*first).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*second).verdict, OwnerVerdict::kOutcomeConflict);
}

TEST_F(SlowLaneTest, FollowersOfALockedFirstFollowIt) {
  Lock("order-1");
  const auto first = Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 2));
  Step();
  Step();
  EXPECT_EQ(Count(Metric::kSlowLane), 2);
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*first).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*second).verdict, BeginVerdict::kInProgress);
}

TEST_F(SlowLaneTest, LaneHasTheKeyAgainAfterwards) {
  Lock("order-1");
  Begin(BeginOf("order-1", 1));
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  const auto told = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kSlowLane), 1);
}

TEST_F(SlowLaneTest, LockedBeginIsGivenUpAtItsDeadline) {
  Lock("order-1");
  const auto told = Begin(BeginOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(5)));
  Step();
  Advance(absl::Seconds(5) - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(told.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
}

TEST_F(SlowLaneTest, LockedRenewIsGivenUpAtItsDeadline) {
  Start("order-1");
  Lock("order-1");
  const auto told = Owner(RenewOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(5)));
  Step();
  Advance(absl::Seconds(5));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
  EXPECT_THAT(events_.Seen(), IsEmpty()) << "a Renew is no evidence";
}

TEST_F(SlowLaneTest, LockedCompleteOutlivesItsDeadline) {
  Start("order-1");
  Lock("order-1");
  const auto told = Owner(CompleteOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(1)));
  Step();
  Advance(absl::Seconds(10));
  Step();
  EXPECT_FALSE(told.IsAnswered());
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kRecorded);
}

TEST_F(SlowLaneTest, LockedCompleteIsGivenUpAfterItsPatience) {
  Start("order-1");
  Lock("order-1");
  const auto told = Owner(CompleteOf("order-1", 1));
  Step();
  Advance(kFinishPatience - absl::Milliseconds(1));
  Step();
  EXPECT_FALSE(told.IsAnswered());
  Advance(absl::Milliseconds(1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), 0);
  EXPECT_THAT(events_.Seen(), ElementsAre("given up order-1"));
  EXPECT_EQ(Count(Metric::kOutcomeGivenUp), 1);
}

TEST_F(SlowLaneTest, TriesPauseLongerAndLonger) {
  Lock("order-1");
  Begin(BeginOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(20)));
  Step();
  const auto tries = [&] { return database_.CountBatches(BatchKind::kBegin); };
  EXPECT_EQ(tries(), 2u) << "the lane's own, and the slow lane's first";
  Advance(SlowLane::kFirstPause);
  Step();
  EXPECT_EQ(tries(), 3u);
  Advance(SlowLane::kFirstPause);
  Step();
  EXPECT_EQ(tries(), 3u);
  Advance(SlowLane::kFirstPause);
  Step();
  EXPECT_EQ(tries(), 4u);
  Advance(absl::Seconds(20));
  Step();
}

TEST_F(SlowLaneTest, BeginWhoseCallerLeftIsDropped) {
  Lock("order-1");
  CallTerms terms = Terms();
  auto left = std::make_shared<std::atomic<bool>>(false);
  terms.caller_left = left;
  const auto told = Begin(BeginOf("order-1", 1), std::move(terms));
  Step();
  left->store(true);
  Step();
  EXPECT_EQ(told.Failed(), Fault::kCancelled);
}

TEST_F(SlowLaneTest, LockedCompleteWakesTheWaiterWhenRecorded) {
  Start("order-1");
  const auto waiter = Begin(BeginOf("order-1", 2), Terms(kMaxWait));
  Step();
  Lock("order-1");
  Owner(CompleteOf("order-1", 1));
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(SlowLaneTest, LockedBeginThatWouldWaitWaitsInItsLane) {
  Start("order-1");
  Lock("order-1");
  const auto waiter = Begin(BeginOf("order-1", 2), Terms(kMaxWait));
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  Step();
  EXPECT_FALSE(waiter.IsAnswered());
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), 0);
  EXPECT_EQ(Count(Metric::kWaiting), 1);
  Owner(CompleteOf("order-1", 1));
  Step();
  Step();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kReplay);
}

TEST_F(SlowLaneTest, OtherFaultInTheSlowLaneIsAnswered) {
  Lock("order-1");
  const auto told = Begin(BeginOf("order-1", 1));
  Step();
  database_.FailKey(Key("order-1"), MakeFault(Fault::kInternal, "refused"));
  AdvanceAndStep();
  EXPECT_EQ(told.Failed(), Fault::kInternal);
}

TEST_F(SlowLaneTest, FollowerThatNeedsAWriteIsTheFirstOfTheNextTry) {
  Start("order-1");
  Advance(absl::Seconds(63));
  Lock("order-1");
  const auto refused = Begin(BeginOf("order-1", 2, /*body=*/2));
  const auto takes_over = Begin(BeginOf("order-1", 3));
  Step();
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  EXPECT_EQ((*refused).verdict, BeginVerdict::kKeyReused);
  Step();
  EXPECT_EQ((*takes_over).verdict, BeginVerdict::kStarted);
}

TEST_F(SlowLaneTest, RefusedCompleteOfALockedRowIsKept) {
  Start("order-1");
  Owner(CompleteOf("order-1", 1));
  Step();
  Lock("order-1");
  Owner(CompleteOf("order-1", 1, /*status_code=*/500));
  Step();
  Unlock("order-1");
  AdvanceAndStep();
  Step();
  EXPECT_TRUE(database_.Find(Key("order-1"))->refused_outcome.has_value());
}

TEST_F(SlowLaneTest, LockedCompleteIsRecordedWhileDraining) {
  Start("order-1");
  Metrics metrics;
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), SystemClock(), &metrics, &events_);
  const CallTerms terms = {.deadline = SystemClock()->BootTime() + absl::Hours(1)};
  Lock("order-1");
  database_.CloseGate();
  Told<OwnerResult> complete;
  started->Owner(CompleteOf("order-1", 1), terms, complete.Done());
  std::thread drain([&] { started->Drain(); });
  database_.OpenGate();
  Unlock("order-1");
  drain.join();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
}

TEST_F(SlowLaneTest, LockedBeginIsGivenUpWhileDraining) {
  Lock("order-1");
  const auto told = Begin(BeginOf("order-1", 1));
  engine().Drain();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
}

}  // namespace
}  // namespace idempotency
