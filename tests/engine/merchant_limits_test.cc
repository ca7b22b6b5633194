#include "server/engine/merchant_limits.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

using Place = MerchantLimits::Place;
using Refusal = MerchantLimits::Refusal;
using Bound = MerchantLimits::Bound;

constexpr absl::Duration kNow = absl::Hours(1);

class MerchantLimitsTest : public testing::Test {
 protected:
  // Tests that need other options change them before the first call.
  MerchantLimits& limits() {
    if (limits_ == nullptr) {
      limits_ = std::make_unique<MerchantLimits>(options_, &metrics_, capacity_);
    }
    return *limits_;
  }
  bool Enters(absl::string_view merchant, absl::Duration now = kNow) {
    return std::holds_alternative<Place>(limits().Enter(merchant, now));
  }
  // REQUIRES: it enters.
  Place Enter(absl::string_view merchant, absl::Duration now = kNow) {
    return std::get<Place>(limits().Enter(merchant, now));
  }
  // REQUIRES: it is refused.
  Refusal Refused(absl::string_view merchant, absl::Duration now = kNow) {
    return std::get<Refusal>(limits().Enter(merchant, now));
  }
  int64_t Count(Metric metric) const { return metrics_.Value(metric); }

  MerchantLimitOptions options_ = {.max_rate = 10, .burst = 3, .max_calls_in_flight = 0};
  MerchantCapacity capacity_;
  Metrics metrics_;
  std::unique_ptr<MerchantLimits> limits_;
};

TEST_F(MerchantLimitsTest, BurstIsLetInAndOneMoreIsNot) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Enters("a"));
  EXPECT_EQ(Refused("a").bound, Bound::kRate);
  EXPECT_EQ(Count(Metric::kMerchantRateLimited), 1);
}

TEST_F(MerchantLimitsTest, RefusalTellsWhenATokenIsThere) {
  for (int i = 0; i < 3; ++i) Enters("a");
  const absl::Duration wait = Refused("a", kNow + absl::Milliseconds(30)).until_token;
  EXPECT_EQ(wait, absl::Milliseconds(70));
  EXPECT_FALSE(Enters("a", kNow + absl::Milliseconds(100) - absl::Nanoseconds(1)));
  EXPECT_TRUE(Enters("a", kNow + absl::Milliseconds(100)));
}

TEST_F(MerchantLimitsTest, RefusedCallTakesNoToken) {
  for (int i = 0; i < 3; ++i) Enters("a");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Enters("a"));
  EXPECT_TRUE(Enters("a", kNow + absl::Milliseconds(100)));
}

TEST_F(MerchantLimitsTest, TokensComeAtTheRate) {
  int entered = 0;
  for (int ms = 0; ms < 10'000; ++ms) {
    entered += Enters("a", kNow + absl::Milliseconds(ms)) ? 1 : 0;
  }
  EXPECT_EQ(entered, 3 + 99);
}

TEST_F(MerchantLimitsTest, PauseFillsTheBucketToTheBurstAndNoFurther) {
  for (int i = 0; i < 3; ++i) Enters("a");
  const absl::Duration later = kNow + absl::Hours(5);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Enters("a", later));
  EXPECT_FALSE(Enters("a", later));
}

TEST_F(MerchantLimitsTest, WithoutABurstASecondsWorthComesAtOnce) {
  options_.burst = 0;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Enters("a"));
  EXPECT_FALSE(Enters("a"));
}

TEST_F(MerchantLimitsTest, OneMerchantsFloodCostsNoOther) {
  for (int i = 0; i < 1000; ++i) Enters("a");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Enters("b"));
  EXPECT_FALSE(Enters("b"));
}

TEST_F(MerchantLimitsTest, NamesAreComparedByteForByte) {
  for (int i = 0; i < 1000; ++i) Enters("a");
  EXPECT_TRUE(Enters("A"));
  EXPECT_TRUE(Enters("a "));
}

TEST_F(MerchantLimitsTest, RateOfZeroIsNoBound) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 0};
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(Enters("a"));
  EXPECT_EQ(Count(Metric::kMerchantBuckets), 0);
}

TEST_F(MerchantLimitsTest, CallsInFlightEndAtTheirBound) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 2};
  const Place first = Enter("a");
  Place second = Enter("a");
  EXPECT_EQ(Refused("a").bound, Bound::kCallsInFlight);
  EXPECT_EQ(Count(Metric::kMerchantCallsRefused), 1);
  EXPECT_TRUE(Enters("b"));
  second = {};
  EXPECT_TRUE(Enters("a"));
}

TEST_F(MerchantLimitsTest, MovedPlaceIsGivenBackOnce) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 1};
  {
    Place first = Enter("a");
    const Place second = std::move(first);
    EXPECT_FALSE(Enters("a"));
  }
  const Place third = Enter("a");
  EXPECT_FALSE(Enters("a"));
}

TEST_F(MerchantLimitsTest, CallOverTheCallsInFlightTakesNoToken) {
  options_ = {.max_rate = 1, .burst = 2, .max_calls_in_flight = 1};
  Place first = Enter("a");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Refused("a").bound, Bound::kCallsInFlight);
  first = {};
  EXPECT_TRUE(Enters("a"));
  EXPECT_EQ(Refused("a").bound, Bound::kRate);
}

// The memory: buckets are bounded, and a bucket that says something is never forgotten.

class MerchantMemoryTest : public MerchantLimitsTest {
 protected:
  MerchantMemoryTest() { capacity_ = {.shards = 1, .buckets_of_a_shard = 2}; }
};

TEST_F(MerchantMemoryTest, FullBucketIsForgottenForAnotherMerchant) {
  Enters("a");
  Enters("b");
  EXPECT_TRUE(Enters("c", kNow + absl::Milliseconds(100)));
  EXPECT_EQ(Count(Metric::kMerchantBuckets), 2);
  EXPECT_EQ(Count(Metric::kMerchantBucketForgotten), 1);
  EXPECT_EQ(Count(Metric::kMerchantBucketShared), 0);
}

TEST_F(MerchantMemoryTest, ForgottenMerchantBeginsWithAFullBucketAsItHadOne) {
  Enters("a");
  Enters("b");
  const absl::Duration later = kNow + absl::Seconds(1);
  Enters("c", later);
  Enters("d", later);
  const absl::Duration latest = later + absl::Seconds(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Enters("a", latest));
  EXPECT_FALSE(Enters("a", latest));
}

TEST_F(MerchantMemoryTest, ChurnOfMadeUpNamesResetsNoBucket) {
  for (int i = 0; i < 3; ++i) Enters("a");
  Enters("b");
  for (int i = 0; i < 10'000; ++i) Enters("made-up-" + std::to_string(i));
  EXPECT_FALSE(Enters("a"));
  EXPECT_EQ(Count(Metric::kMerchantBuckets), 2);
  EXPECT_EQ(Count(Metric::kMerchantBucketForgotten), 0);
}

TEST_F(MerchantMemoryTest, MerchantsWithoutABucketShareOne) {
  Enters("a");
  Enters("b");
  EXPECT_TRUE(Enters("c"));
  EXPECT_TRUE(Enters("d"));
  EXPECT_TRUE(Enters("e"));
  EXPECT_FALSE(Enters("f"));
  EXPECT_EQ(Count(Metric::kMerchantBucketShared), 4);
  // Those that have one lose nothing by it.
  EXPECT_TRUE(Enters("a"));
}

TEST_F(MerchantMemoryTest, BucketOfAMerchantWithCallsInFlightIsNotForgotten) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 1};
  Place a = Enter("a");
  const Place b = Enter("b");
  Enters("c");
  EXPECT_FALSE(Enters("a"));
  EXPECT_EQ(Count(Metric::kMerchantBucketForgotten), 0);
  a = {};
  Enters("c");
  EXPECT_EQ(Count(Metric::kMerchantBucketForgotten), 1);
}

TEST_F(MerchantMemoryTest, PlaceOfTheSharedBucketOutlivesAnOwnOne) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 1};
  Place a = Enter("a");
  const Place b = Enter("b");
  Place c = Enter("c");
  a = {};
  EXPECT_TRUE(Enters("c"));
  c = {};
  const Place d = Enter("d");
  EXPECT_FALSE(Enters("d"));
}

TEST_F(MerchantMemoryTest, SearchForAForgettableBucketComesToEveryOne) {
  capacity_ = {.shards = 1, .buckets_of_a_shard = 3 * MerchantLimits::kProbes};
  for (size_t i = 0; i + 1 < capacity_.buckets_of_a_shard; ++i) {
    const std::string busy = "busy-" + std::to_string(i);
    for (int call = 0; call < 3; ++call) Enters(busy);
  }
  Enters("idle");
  const absl::Duration later = kNow + absl::Milliseconds(100);
  for (int i = 0; i < 3; ++i) Enters("new-" + std::to_string(i), later);
  EXPECT_EQ(Count(Metric::kMerchantBucketForgotten), 1);
}

TEST_F(MerchantMemoryTest, ThreadsLetInNoMoreThanTheBurst) {
  options_ = {.max_rate = 1, .burst = 500, .max_calls_in_flight = 0};
  limits();
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) entered += Enters("a") ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entered, 500);
}

TEST_F(MerchantMemoryTest, ThreadsGiveEveryPlaceBack) {
  options_ = {.max_rate = 0, .burst = 0, .max_calls_in_flight = 2};
  limits();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) Enters(std::string(1, static_cast<char>('a' + (t + i) % 5)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Place first = Enter("a");
  const Place second = Enter("a");
  EXPECT_FALSE(Enters("a"));
}

}  // namespace
}  // namespace idempotency
