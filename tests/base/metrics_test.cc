#include "server/base/metrics.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Histogram, ValueAtABoundLiesBelowItAndOneAboveDoesNot) {
  Histogram histogram(kItems);
  histogram.Observe(int64_t{1});
  histogram.Observe(int64_t{2});
  histogram.Observe(int64_t{3});
  EXPECT_EQ(histogram.CountIn(0), 1u);
  EXPECT_EQ(histogram.CountIn(1), 1u);
  EXPECT_EQ(histogram.CountIn(2), 1u);
  EXPECT_EQ(histogram.Count(), 3u);
  EXPECT_EQ(histogram.Sum(), 6);
}

TEST(Histogram, ValueBeyondTheLastBoundHasABucket) {
  Histogram histogram(kItems);
  const size_t last = histogram.bounds().upper.size();
  histogram.Observe(histogram.bounds().upper[last - 1]);
  histogram.Observe(histogram.bounds().upper[last - 1] + 1);
  EXPECT_EQ(histogram.CountIn(last - 1), 1u);
  EXPECT_EQ(histogram.CountIn(last), 1u);
}

TEST(Histogram, SpanCountsInRoundedMicroseconds) {
  Histogram histogram(kSeconds);
  histogram.Observe(absl::Nanoseconds(1'500));
  histogram.Observe(absl::Nanoseconds(1'499));
  EXPECT_EQ(histogram.Sum(), 3);
}

TEST(Histogram, SpanBelowZeroCountsAsZero) {
  Histogram histogram(kSeconds);
  histogram.Observe(absl::Seconds(-5));
  EXPECT_EQ(histogram.Sum(), 0);
  EXPECT_EQ(histogram.CountIn(0), 1u);
}

TEST(Histogram, TallyCountsAsItsObservationsWouldHave) {
  Histogram one_by_one(kSeconds);
  Histogram together(kSeconds);
  Histogram::Tally tally(together);
  for (const absl::Duration span :
       {absl::Microseconds(250), absl::Microseconds(251), absl::Seconds(-1), absl::Minutes(5),
        absl::Nanoseconds(1'500)}) {
    one_by_one.Observe(span);
    tally.Observe(span);
  }
  EXPECT_EQ(together.Count(), 0u);
  together.Observe(tally);
  for (size_t i = 0; i <= together.bounds().upper.size(); ++i) {
    EXPECT_EQ(together.CountIn(i), one_by_one.CountIn(i)) << i;
  }
  EXPECT_EQ(together.Sum(), one_by_one.Sum());
}

TEST(Histogram, BoundsAreAscendingAndFit) {
  for (const HistogramBounds& bounds : {kSeconds, kItems}) {
    EXPECT_LE(bounds.upper.size(), kMaxHistogramBounds);
    for (size_t i = 1; i < bounds.upper.size(); ++i) {
      EXPECT_LT(bounds.upper[i - 1], bounds.upper[i]);
    }
  }
}

TEST(Metrics, EverythingIsZeroAtFirst) {
  const Metrics metrics;
  for (size_t i = 0; i < static_cast<size_t>(Metric::kCount); ++i) {
    EXPECT_EQ(metrics.Value(static_cast<Metric>(i)), 0);
  }
  for (size_t i = 0; i < static_cast<size_t>(HistogramMetric::kCount); ++i) {
    EXPECT_EQ(metrics.Of(static_cast<HistogramMetric>(i)).Count(), 0u);
  }
  for (size_t i = 0; i < static_cast<size_t>(LaneMetric::kCount); ++i) {
    EXPECT_EQ(metrics.Value(static_cast<LaneMetric>(i)), 0);
  }
}

TEST(Metrics, CountersAreToldFromGaugesByTheirTable) {
  EXPECT_TRUE(Metrics::IsCounter(Metric::kBeginStarted));
  EXPECT_TRUE(Metrics::IsCounter(Metric::kLogDropped));
  EXPECT_FALSE(Metrics::IsCounter(Metric::kCallsInFlight));
  EXPECT_FALSE(Metrics::IsCounter(Metric::kWaiting));
}

TEST(Metrics, TextIsThatOfTheMetric) {
  EXPECT_EQ(Metrics::Text(Metric::kFencingRefused).exported, "idempotency_fencing_refused_total");
  EXPECT_EQ(Metrics::Text(Metric::kWaiting).exported, "idempotency_waiting_calls");
  EXPECT_EQ(Metrics::Text(HistogramMetric::kWaitDuration).exported,
            "idempotency_wait_duration_seconds");
  EXPECT_EQ(Metrics::Text(LaneMetric::kBatchItems).exported, "idempotency_lane_batch_items");
}

TEST(Metrics, LanesAreCountedApartAndTogether) {
  Metrics metrics;
  metrics.Add(LaneMetric::kQueuedItems, 0, 2);
  metrics.Add(LaneMetric::kQueuedItems, kMaxLanes - 1, 3);
  metrics.Add(LaneMetric::kQueuedItems, kSlowLaneNumber, 4);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedItems, 0), 2);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedItems, 1), 0);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedItems), 9);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedBytes), 0);
}

TEST(Metrics, GaugeIsSet) {
  Metrics metrics;
  metrics.Set(Metric::kWaiting, 7);
  metrics.Set(Metric::kWaiting, 5);
  EXPECT_EQ(metrics.Value(Metric::kWaiting), 5);
}

TEST(RpcMetrics, CountsByMethodAndCode) {
  RpcMetrics rpc;
  rpc.Started(RpcMethod::kRenew);
  rpc.Handled(RpcMethod::kRenew, 14, absl::Milliseconds(3));
  EXPECT_EQ(rpc.StartedCount(RpcMethod::kRenew), 1u);
  EXPECT_EQ(rpc.StartedCount(RpcMethod::kBegin), 0u);
  EXPECT_EQ(rpc.HandledCount(RpcMethod::kRenew, 14), 1u);
  EXPECT_EQ(rpc.HandledCount(RpcMethod::kRenew, 0), 0u);
  EXPECT_EQ(rpc.Took(RpcMethod::kRenew).Sum(), 3'000);
}

TEST(RpcMetrics, CodeThatDoesNotExistCountsAsUnknown) {
  RpcMetrics rpc;
  rpc.Handled(RpcMethod::kBegin, -1, absl::ZeroDuration());
  rpc.Handled(RpcMethod::kBegin, static_cast<int>(kRpcCodes), absl::ZeroDuration());
  rpc.Handled(RpcMethod::kBegin, static_cast<int>(kRpcCodes) - 1, absl::ZeroDuration());
  EXPECT_EQ(rpc.HandledCount(RpcMethod::kBegin, 2), 2u);
  EXPECT_EQ(kRpcCodeNames[2], "Unknown");
  EXPECT_EQ(rpc.HandledCount(RpcMethod::kBegin, kRpcCodes - 1), 1u);
  EXPECT_EQ(kRpcCodeNames[kRpcCodes - 1], "Unauthenticated");
}

TEST(Metrics, NoCountIsLostBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 10'000;
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        metrics.Add(Metric::kLookup);
        metrics.Observe(HistogramMetric::kWaitDuration, absl::Microseconds(2));
        metrics.rpc().Started(RpcMethod::kLookup);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.Value(Metric::kLookup), kThreads * kEach);
  EXPECT_EQ(metrics.Of(HistogramMetric::kWaitDuration).Sum(), 2 * kThreads * kEach);
  EXPECT_EQ(metrics.Of(HistogramMetric::kWaitDuration).Count(),
            static_cast<uint64_t>(kThreads * kEach));
  EXPECT_EQ(metrics.rpc().StartedCount(RpcMethod::kLookup),
            static_cast<uint64_t>(kThreads * kEach));
}

}  // namespace
}  // namespace idempotency
