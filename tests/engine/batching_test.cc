// What rides in a batch, who goes first, and what the others of a key are told.
#include <atomic>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

using testing::ElementsAre;

class BatchingTest : public EngineTest {
 protected:
  std::vector<BatchKind> Kinds() {
    std::vector<BatchKind> kinds;
    for (const SeenBatch& batch : database_.Batches()) kinds.push_back(batch.kind);
    return kinds;
  }
  static CallTerms WithCaller(CallTerms terms, std::shared_ptr<std::atomic<bool>> left) {
    terms.caller_left = std::move(left);
    return terms;
  }
};

TEST_F(BatchingTest, QueuedCallsRideTogether) {
  for (int i = 0; i < 10; ++i) Begin(BeginOf("order-" + std::to_string(i), 1));
  Step();
  ASSERT_EQ(database_.Batches().size(), 1u);
  EXPECT_EQ(database_.Batches()[0].items, 10u);
}

TEST_F(BatchingTest, BatchEndsAtItsItems) {
  options_.batch_max_items = 4;
  for (int i = 0; i < 5; ++i) Begin(BeginOf("order-" + std::to_string(i), 1));
  Step();
  EXPECT_EQ(database_.Batches()[0].items, 4u);
  Step();
  EXPECT_EQ(database_.Batches()[1].items, 1u);
}

TEST_F(BatchingTest, BatchEndsAtItsBytes) {
  options_.batch_max_bytes = 1;
  for (const char* key : {"a", "b"}) Begin(BeginOf(key, 1));
  Step();
  EXPECT_EQ(database_.Batches()[0].items, 1u);
}

TEST_F(BatchingTest, NothingQueuedSendsNothing) {
  Step();
  EXPECT_TRUE(database_.Batches().empty());
}

TEST_F(BatchingTest, FinishingCallsGoFirstAndLookupsLast) {
  Lookup("order-1");
  Begin(BeginOf("order-2", 1));
  Owner(CompleteOf("order-3", 1));
  Step();
  EXPECT_THAT(Kinds(), ElementsAre(BatchKind::kOwner, BatchKind::kBegin, BatchKind::kLookup));
}

TEST_F(BatchingTest, NobodyIsAnsweredBeforeTheStoreReturned) {
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  database_.CloseGate();
  Told<BeginResult> told;
  started->Begin(BeginOf("order-1", 1), Terms(), told.Done());
  ASSERT_TRUE(database_.AwaitAtGate(1));
  EXPECT_FALSE(told.IsAnswered());
  database_.OpenGate();
  told.Await();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
}

TEST_F(BatchingTest, WhatQueuesWhileTheDatabaseIsBusyIsOneBatch) {
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  database_.CloseGate();
  std::vector<Told<BeginResult>> told(21);
  started->Begin(BeginOf("first", 1), Terms(), told[0].Done());
  ASSERT_TRUE(database_.AwaitAtGate(1));
  for (int i = 1; i <= 20; ++i) {
    started->Begin(BeginOf("order-" + std::to_string(i), 1), Terms(), told[i].Done());
  }
  database_.OpenGate();
  for (const auto& one : told) one.Await();
  ASSERT_EQ(database_.Batches().size(), 2u);
  EXPECT_EQ(database_.Batches()[1].items, 20u);
}

// Known fault 6.
TEST_F(BatchingTest, SameKeyTwiceInABatchStartsOnce) {
  const auto first = Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ(database_.Batches()[0].items, 1u);
  EXPECT_EQ((*first).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*second).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kCoalesced), 1);
}

TEST_F(BatchingTest, SameAttemptTwiceInABatchIsOneAttempt) {
  const auto first = Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 1));
  Step();
  EXPECT_EQ((*second).verdict, BeginVerdict::kStarted);
  EXPECT_TRUE((*second).repeated);
  EXPECT_EQ((*second).record->fencing_token, (*first).record->fencing_token);
  EXPECT_TRUE(events_.Seen().empty());
}

// Known fault 26.
TEST_F(BatchingTest, OtherBodyInTheSameBatchIsKeyReused) {
  Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 2, /*body=*/2));
  Step();
  EXPECT_EQ((*second).verdict, BeginVerdict::kKeyReused);
}

// Known fault 41.
TEST_F(BatchingTest, TwoMerchantsNeverMeet) {
  const auto first = Begin(BeginOf("order-1", 1));
  BeginItem other = BeginOf("order-1", 2);
  other.key.merchant_id = "other";
  const auto second = Begin(std::move(other));
  Step();
  EXPECT_EQ((*first).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*second).verdict, BeginVerdict::kStarted);
}

TEST_F(BatchingTest, FollowerThatNeedsAWriteGoesIntoTheNextBatch) {
  Start("order-1");
  Advance(absl::Seconds(63));
  const auto refused = Begin(BeginOf("order-1", 2, /*body=*/2));
  const auto takes_over = Begin(BeginOf("order-1", 3));
  Step();
  EXPECT_EQ((*refused).verdict, BeginVerdict::kKeyReused);
  EXPECT_FALSE(takes_over.IsAnswered());
  Step();
  EXPECT_EQ((*takes_over).verdict, BeginVerdict::kStarted);
}

TEST_F(BatchingTest, FollowerGoesToTheHeadOfTheNextBatch) {
  options_.batch_max_items = 1;
  Start("order-1");
  Advance(absl::Seconds(63));
  Begin(BeginOf("order-1", 2, /*body=*/2));
  const auto follower = Begin(BeginOf("order-1", 3));
  const auto behind = Begin(BeginOf("order-2", 1));
  Step();
  Step();
  EXPECT_TRUE(follower.IsAnswered());
  EXPECT_FALSE(behind.IsAnswered());
}

TEST_F(BatchingTest, FailedFirstDecidesNothingForTheOthers) {
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kInternal, "refused"));
  const auto first = Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ(first.Failed(), Fault::kInternal);
  EXPECT_FALSE(second.IsAnswered());
  Step();
  EXPECT_EQ((*second).verdict, BeginVerdict::kStarted);
}

TEST_F(BatchingTest, UnknownFirstDecidesNothingForTheOthers) {
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kCommitUnknown, "lost"),
                     FaultMoment::kAfterCommit);
  const auto first = Begin(BeginOf("order-1", 1));
  const auto second = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ(first.Failed(), Fault::kCommitUnknown);
  EXPECT_FALSE(second.IsAnswered());
  Step();
  EXPECT_EQ((*second).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Count(Metric::kCommitUnknown), 1);
}

TEST_F(BatchingTest, DroppedFirstLeavesTheKeyToTheOthers) {
  const auto first =
      Begin(BeginOf("order-1", 1), WithCaller(Terms(), std::make_shared<std::atomic<bool>>(true)));
  const auto second = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ(first.Failed(), Fault::kCancelled);
  EXPECT_EQ((*second).verdict, BeginVerdict::kStarted);
}

TEST_F(BatchingTest, FurtherCompletesOfAKeyWaitForTheNextBatch) {
  Start("order-1");
  const auto first = Owner(CompleteOf("order-1", 1));
  const auto second = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_EQ((*first).verdict, OwnerVerdict::kRecorded);
  EXPECT_FALSE(second.IsAnswered());
  Step();
  EXPECT_EQ((*second).verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(BatchingTest, FurtherRenewOfAKeyWaitsForTheNextBatch) {
  Start("order-1");
  const auto renew = Owner(RenewOf("order-1", 1));
  const auto complete = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_EQ((*renew).verdict, OwnerVerdict::kRenewed);
  EXPECT_FALSE(complete.IsAnswered());
}

TEST_F(BatchingTest, LookupsOfOneKeyShareARead) {
  Start("order-1");
  const auto first = Lookup("order-1");
  const auto second = Lookup("order-1");
  Step();
  EXPECT_EQ(database_.Batches().back().items, 1u);
  EXPECT_EQ((*first).record->key, (*second).record->key);
}

TEST_F(BatchingTest, BeginPastItsDeadlineIsDroppedBeforeSql) {
  const auto told = Begin(BeginOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(1)));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kDeadlineExceeded);
  EXPECT_EQ(database_.Size(), 0u);
  EXPECT_EQ(Count(Metric::kExpiredInQueue), 1);
}

TEST_F(BatchingTest, LookupPastItsDeadlineIsDroppedBeforeSql) {
  const auto told = Lookup("order-1", Terms(absl::ZeroDuration(), absl::Seconds(1)));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kDeadlineExceeded);
  EXPECT_TRUE(database_.Batches().empty());
}

TEST_F(BatchingTest, RenewWhoseCallerLeftIsDroppedBeforeSql) {
  Start("order-1");
  const auto told =
      Owner(RenewOf("order-1", 1), WithCaller(Terms(), std::make_shared<std::atomic<bool>>(true)));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kCancelled);
  EXPECT_EQ(database_.CountBatches(BatchKind::kOwner), 0u);
  EXPECT_EQ(Count(Metric::kLeftInQueue), 1);
}

// Known fault 40: what was begun is not undone because its caller went away.
TEST_F(BatchingTest, BeginIsAnsweredWhenItsCallerLeftAfterSql) {
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  database_.CloseGate();
  auto left = std::make_shared<std::atomic<bool>>(false);
  Told<BeginResult> told;
  started->Begin(BeginOf("order-1", 1), WithCaller(Terms(), left), told.Done());
  ASSERT_TRUE(database_.AwaitAtGate(1));
  left->store(true);
  clock_.Advance(absl::Hours(2));
  database_.OpenGate();
  told.Await();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(database_.Find(Key("order-1")).has_value());
}

// Known fault 40.
TEST_F(BatchingTest, CompleteIsRecordedAlthoughItsCallerLeft) {
  Start("order-1");
  const auto told = Owner(CompleteOf("order-1", 1),
                          WithCaller(Terms(), std::make_shared<std::atomic<bool>>(true)));
  Step();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(database_.Find(Key("order-1"))->state, RecordState::kCompleted);
}

TEST_F(BatchingTest, CompleteIsRecordedAlthoughItsDeadlinePassed) {
  Start("order-1");
  const auto told = Owner(CompleteOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(1)));
  Advance(absl::Seconds(2));
  Step();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kRecorded);
}

TEST_F(BatchingTest, PoisonItemFailsAlone) {
  database_.FailKey(Key("bad"), MakeFault(Fault::kInternal, "refused"));
  const auto bad = Begin(BeginOf("bad", 1));
  const auto good = Begin(BeginOf("good", 1));
  Step();
  EXPECT_EQ(bad.Failed(), Fault::kInternal);
  EXPECT_EQ((*good).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Count(Metric::kInternalFault), 1);
}

// Known fault 12: no lease left is a value, not the lack of a lease.
TEST_F(BatchingTest, RepeatAtTheLeasesEndIsTheSameAttempt) {
  Start("order-1");
  Advance(absl::Seconds(60));
  const auto told = Begin(BeginOf("order-1", 1));
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
  EXPECT_TRUE((*told).repeated);
  EXPECT_EQ(LeaseRemaining(*(*told).record, (*told).reading.now), absl::ZeroDuration());
}

// Known fault 12.
TEST_F(BatchingTest, OtherAttemptAtTheLeasesEndIsStillInProgress) {
  Start("order-1");
  Advance(absl::Seconds(60));
  const auto told = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kInProgress);
}

}  // namespace
}  // namespace idempotency
