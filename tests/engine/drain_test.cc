// Shutting down: refuse what is new, answer what was accepted.
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class DrainTest : public EngineTest {};

TEST_F(DrainTest, NewCallsAreRefused) {
  engine().Drain();
  EXPECT_EQ(Begin(BeginOf("order-1", 1)).Failed(), Fault::kDraining);
  EXPECT_EQ(Owner(CompleteOf("order-1", 1)).Failed(), Fault::kDraining);
  EXPECT_EQ(Lookup("order-1").Failed(), Fault::kDraining);
  EXPECT_EQ(Count(Metric::kDraining), 3);
  EXPECT_EQ(Count(Metric::kCallsInFlight), 0);
}

TEST_F(DrainTest, AcceptedCallsAreExecuted) {
  Start("order-1");
  const auto complete = Owner(CompleteOf("order-1", 1));
  const auto begin = Begin(BeginOf("order-2", 1));
  const auto lookup = Lookup("order-1");
  engine().Drain();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*begin).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*lookup).record->state, RecordState::kCompleted);
}

TEST_F(DrainTest, EveryBatchOfALongQueueIsExecuted) {
  options_.batch_max_items = 2;
  Start("order-1");
  std::vector<Told<OwnerResult>> told;
  for (int i = 0; i < 7; ++i) told.push_back(Owner(CompleteOf("order-1", 1)));
  engine().Drain();
  for (const auto& one : told) EXPECT_TRUE(one.IsAnswered());
  EXPECT_EQ(database_.Find(Key("order-1"))->state, RecordState::kCompleted);
}

TEST_F(DrainTest, RefusedAnswersAreKeptBeforeTheEnd) {
  Start("order-1");
  Owner(CompleteOf("order-1", 1));
  Step();
  Owner(CompleteOf("order-1", 1, /*status_code=*/500));
  engine().Drain();
  EXPECT_TRUE(database_.Find(Key("order-1"))->refused_outcome.has_value());
}

TEST_F(DrainTest, WaitsAreAnsweredInProgress) {
  Start("order-1");
  const auto waiter = Begin(BeginOf("order-1", 2), Terms(absl::Seconds(20)));
  Step();
  ASSERT_FALSE(waiter.IsAnswered());
  Advance(absl::Seconds(5));
  engine().Drain();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ((*waiter).record->attempt_number, 1);
  EXPECT_EQ(LeaseRemaining(*(*waiter).record, (*waiter).reading.now), absl::Seconds(55));
  EXPECT_EQ(Count(Metric::kWaiting), 0);
}

TEST_F(DrainTest, QueuedBeginThatWouldWaitIsAnsweredInProgress) {
  Start("order-1");
  const auto waiter = Begin(BeginOf("order-1", 2), Terms(absl::Seconds(20)));
  engine().Drain();
  EXPECT_EQ((*waiter).verdict, BeginVerdict::kInProgress);
}

TEST_F(DrainTest, DrainingTwiceIsDrainingOnce) {
  engine().Drain();
  engine().Drain();
}

TEST_F(DrainTest, CompleteQueuedBehindABusyDatabaseIsRecorded) {
  Start("order-1");
  std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  database_.CloseGate();
  Told<BeginResult> busy;
  started->Begin(BeginOf("order-2", 1), Terms(), busy.Done());
  ASSERT_TRUE(database_.AwaitAtGate(1));
  Told<OwnerResult> complete;
  started->Owner(CompleteOf("order-1", 1), Terms(), complete.Done());
  database_.OpenGate();
  started->Drain();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
}

}  // namespace
}  // namespace idempotency
