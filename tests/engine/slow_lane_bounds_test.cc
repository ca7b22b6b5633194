// Rows that another transaction holds, when the slow lane is full of them.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/slow_lane_fixture.h"

namespace idempotency {
namespace {

// The bound, on the part alone.
class SlowLaneBoundTest : public SlowLaneTest {
 protected:
  static constexpr size_t kBegins = SlowLane::kMaxCalls - SlowLane::kMaxCalls / 4;

  void SetUp() override {
    SlowLaneTest::SetUp();
    options_.queue_max_items = 10'000;
    options_.batch_max_items = 4096;
    Lock("order-1");
  }
  void BeginMany(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      told_.push_back(Begin(BeginOf("order-1", 1), Terms(absl::ZeroDuration(), absl::Seconds(5))));
    }
    Step();
    Step();
  }
  // To the last place, with Completes of the locked key.
  void Fill() {
    BeginMany(kBegins);
    for (size_t i = kBegins; i < SlowLane::kMaxCalls; ++i) Owner(CompleteOf("order-1", 1));
    Step();
    ASSERT_EQ(Count(Metric::kSlowLaneCalls), static_cast<int64_t>(SlowLane::kMaxCalls));
  }
  void TearDown() override {
    Advance(absl::Minutes(1));
    Step();
    for (const auto& one : told_) EXPECT_EQ(one.Times(), 1);
    SlowLaneTest::TearDown();
  }
  std::vector<Told<BeginResult>> told_;
};

TEST_F(SlowLaneBoundTest, BeginsFillThreeQuarters) {
  BeginMany(kBegins);
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), static_cast<int64_t>(kBegins));
  EXPECT_EQ(Count(Metric::kSlowLaneFull), 0);
}

TEST_F(SlowLaneBoundTest, OneBeginMoreIsOverloaded) {
  BeginMany(kBegins + 1);
  EXPECT_EQ(told_.back().Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kSlowLaneFull), 1);
}

TEST_F(SlowLaneBoundTest, AnotherLockedRowIsToldThatTheStoreIsUnavailable) {
  BeginMany(kBegins);
  Lock("order-2");
  const auto told = Begin(BeginOf("order-2", 1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
}

TEST_F(SlowLaneBoundTest, CompleteHasTheLastQuarter) {
  BeginMany(kBegins);
  const auto told = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_FALSE(told.IsAnswered());
  EXPECT_EQ(Count(Metric::kSlowLaneCalls), static_cast<int64_t>(kBegins + 1));
}

TEST_F(SlowLaneBoundTest, CompleteOfAnotherLockedRowIsTriedAgainByItsOwnLane) {
  Start("order-2");
  Fill();
  Lock("order-2");
  const auto first = Owner(CompleteOf("order-2", 1, /*status_code=*/201));
  const auto second = Owner(CompleteOf("order-2", 1, /*status_code=*/202));
  Step();
  EXPECT_FALSE(first.IsAnswered());
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 2) << "still counted where it waits";
  Unlock("order-2");
  Step();
  Step();
  EXPECT_EQ((*first).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*second).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
}

TEST_F(SlowLaneBoundTest, CompleteThatItsLaneTriesIsGivenUpAfterItsPatience) {
  Start("order-2");
  Fill();
  Lock("order-2");
  const auto told = Owner(CompleteOf("order-2", 1));
  Step();
  // The slow lane, which filled up at the same instant, is emptied after the lane's step.
  Advance(kFinishPatience);
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
  EXPECT_THAT(events_.Seen(), testing::Contains("given up order-2"));
}

TEST_F(SlowLaneBoundTest, RenewOfAnotherLockedRowIsToldThatTheStoreIsUnavailable) {
  Start("order-2");
  Fill();
  Lock("order-2");
  const auto told = Owner(RenewOf("order-2", 1));
  Step();
  EXPECT_EQ(told.Failed(), Fault::kStoreUnavailable);
}

TEST_F(SlowLaneBoundTest, CompletePastTheBoundIsExecutedByItsOwnLane) {
  Fill();
  Unlock("order-1");
  const auto past = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_EQ((*past).verdict, OwnerVerdict::kRecordNotFound);
  for (int i = 0; i < 400; ++i) {
    Advance(absl::Milliseconds(1));
    Step();
  }
}

}  // namespace
}  // namespace idempotency
