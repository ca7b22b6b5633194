// What the engine counts of its batches, queues and waits.
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class EngineMetricsTest : public EngineTest {
 protected:
  const Histogram& Of(HistogramMetric metric) { return metrics_.Of(metric); }
};

TEST_F(EngineMetricsTest, BatchOfEachKindIsCountedWithItsSize) {
  Begin(BeginOf("a", 1));
  Begin(BeginOf("b", 1));
  Step();
  Owner(CompleteOf("a", 1));
  Lookup("a");
  Step();
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeBegin).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeBegin).Sum(), 2);
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeOwner).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeOwner).Sum(), 1);
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeLookup).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kFlushBegin).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kFlushOwner).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kFlushLookup).Count(), 1u);
}

TEST_F(EngineMetricsTest, StepWithoutCallsIsNoBatch) {
  Step();
  EXPECT_EQ(Of(HistogramMetric::kBatchSizeBegin).Count(), 0u);
  EXPECT_EQ(Count(Metric::kBatches), 0);
}

TEST_F(EngineMetricsTest, QueueWaitIsFromArrivalToBatch) {
  Begin(BeginOf("a", 1));
  Advance(absl::Milliseconds(7));
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_EQ(Of(HistogramMetric::kQueueWaitBegin).Count(), 2u) << "a follower waits, too";
  EXPECT_EQ(Of(HistogramMetric::kQueueWaitBegin).Sum(), 7'000);
}

TEST_F(EngineMetricsTest, QueueWaitOfACallThatIsDecidedTwiceCountsOnce) {
  Start("a");
  Begin(BeginOf("a", 2), Terms(absl::Seconds(10)));
  Step();
  Advance(absl::Seconds(5));
  Owner(CompleteOf("a", 1));
  Step();
  Step();
  EXPECT_EQ(Count(Metric::kBeginReplay), 1);
  EXPECT_EQ(Of(HistogramMetric::kQueueWaitBegin).Count(), 2u);
  EXPECT_EQ(Of(HistogramMetric::kQueueWaitBegin).Sum(), 0);
}

TEST_F(EngineMetricsTest, CallDroppedFromItsQueueCountsNoQueueWait) {
  Begin(BeginOf("a", 1), Terms(absl::ZeroDuration(), absl::Seconds(1)));
  Advance(absl::Seconds(2));
  Step();
  EXPECT_EQ(Count(Metric::kExpiredInQueue), 1);
  EXPECT_EQ(Of(HistogramMetric::kQueueWaitBegin).Count(), 0u);
}

TEST_F(EngineMetricsTest, WaitIsCountedWhenItIsAnswered) {
  Start("a");
  Begin(BeginOf("a", 2), Terms(absl::Seconds(10)));
  Step();
  EXPECT_EQ(Of(HistogramMetric::kWaitDuration).Count(), 0u);
  Advance(absl::Seconds(3));
  Owner(CompleteOf("a", 1));
  Step();
  Step();
  EXPECT_EQ(Of(HistogramMetric::kWaitDuration).Count(), 1u);
  EXPECT_EQ(Of(HistogramMetric::kWaitDuration).Sum(), 3'000'000);
}

TEST_F(EngineMetricsTest, BeginThatDidNotWaitCountsNoWait) {
  Start("a");
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_EQ(Count(Metric::kBeginInProgress), 1);
  EXPECT_EQ(Of(HistogramMetric::kWaitDuration).Count(), 0u);
}

TEST_F(EngineMetricsTest, NothingIsWithTheDatabaseBetweenTwoSteps) {
  Begin(BeginOf("a", 1));
  Step();
  EXPECT_EQ(Count(LaneMetric::kBatchItems), 0);
}

TEST_F(EngineMetricsTest, LanesAreShownAsManyAsThereAre) {
  options_.lanes = 3;
  engine();
  EXPECT_EQ(metrics_.lanes(), 3u);
}

TEST_F(EngineMetricsTest, QueueIsCountedInItsLane) {
  options_.lanes = 2;
  for (int i = 0; i < 8; ++i) Begin(BeginOf("key-" + std::to_string(i), 1));
  const int64_t first = metrics_.Value(LaneMetric::kQueuedItems, 0);
  const int64_t second = metrics_.Value(LaneMetric::kQueuedItems, 1);
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  EXPECT_EQ(first + second, 8);
  Step();
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
}

}  // namespace
}  // namespace idempotency
