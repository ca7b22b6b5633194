#include "tests/bench/histogram.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace idempotency::bench {
namespace {

TEST(Histogram, IsExactBelow128) {
  Histogram histogram;
  for (int64_t value = 1; value <= 100; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.Percentile(0.5), 50);
  EXPECT_EQ(histogram.Percentile(0.99), 99);
  EXPECT_EQ(histogram.Percentile(1), 100);
}

TEST(Histogram, IsNeverTooLowAndAtMostOne128thTooHigh) {
  for (const int64_t value : {int64_t{127}, int64_t{128}, int64_t{129}, int64_t{255}, int64_t{256},
                              int64_t{1'000'003}, int64_t{1} << 40, (int64_t{1} << 40) + 1}) {
    Histogram histogram;
    histogram.Record(value);
    // Another one far above, so that the percentile is the bucket's top and not the maximum.
    histogram.Record(std::numeric_limits<int64_t>::max());
    EXPECT_GE(histogram.Percentile(0.5), value);
    EXPECT_LE(histogram.Percentile(0.5), value + value / 128);
  }
}

TEST(Histogram, NeverExceedsTheGreatestValue) {
  Histogram histogram;
  histogram.Record(1'000'003);
  EXPECT_EQ(histogram.Percentile(0.999), 1'000'003);
}

TEST(Histogram, HoldsTheGreatestNumber) {
  Histogram histogram;
  histogram.Record(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(histogram.Percentile(1), std::numeric_limits<int64_t>::max());
}

TEST(Histogram, CountsNegativeValuesAsZero) {
  Histogram histogram;
  histogram.Record(-5);
  EXPECT_EQ(histogram.Percentile(1), 0);
  EXPECT_EQ(histogram.count(), 1u);
}

TEST(Histogram, AnswersZeroWithoutValues) { EXPECT_EQ(Histogram().Percentile(0.99), 0); }

TEST(Histogram, AddsUp) {
  Histogram low;
  Histogram high;
  for (int i = 0; i < 99; ++i) low.Record(10);
  high.Record(100);
  low.Add(high);
  EXPECT_EQ(low.count(), 100u);
  EXPECT_EQ(low.Percentile(0.99), 10);
  EXPECT_EQ(low.Percentile(1), 100);
}

}  // namespace
}  // namespace idempotency::bench
