#include "server/app/clock_drift.h"

#include <gtest/gtest.h>

namespace idempotency {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

class ClockDriftTest : public testing::Test {
 protected:
  // A reading, `after` the start of this machine's clock, of a database's clock that is ahead.
  absl::Duration Saw(absl::Duration after, absl::Duration ahead,
                     absl::Duration round_trip = absl::ZeroDuration()) {
    return drift_.Saw(kStart + after + ahead, absl::Hours(1) + after,
                      absl::Hours(1) + after + round_trip);
  }

  ClockDrift drift_;
};

TEST_F(ClockDriftTest, IsNoneForTheFirstReading) {
  EXPECT_LE(Saw(absl::ZeroDuration(), absl::Hours(9)), absl::ZeroDuration());
}

TEST_F(ClockDriftTest, IsWhatTheClocksRanApartByInEitherDirection) {
  Saw(absl::ZeroDuration(), absl::Seconds(5));
  EXPECT_EQ(Saw(absl::Seconds(1), absl::Seconds(5)), absl::ZeroDuration());
  EXPECT_EQ(Saw(absl::Seconds(2), absl::Milliseconds(5600)), absl::Milliseconds(600));
  drift_.Forget();
  Saw(absl::Seconds(3), absl::Seconds(5));
  EXPECT_EQ(Saw(absl::Seconds(4), absl::Milliseconds(4400)), absl::Milliseconds(600));
}

TEST_F(ClockDriftTest, LeavesOutWhatTheRoundTripsMayExplain) {
  Saw(absl::ZeroDuration(), absl::Milliseconds(100), absl::Milliseconds(200));
  // Both readings may have been taken at the same distance from the real clock.
  EXPECT_EQ(Saw(absl::Seconds(1), absl::Milliseconds(900), absl::Milliseconds(300)),
            absl::Milliseconds(900 - 100 - 300));
}

TEST_F(ClockDriftTest, SumsUpSmallSteps) {
  Saw(absl::ZeroDuration(), absl::ZeroDuration());
  absl::Duration drift;
  for (int i = 1; i <= 10; ++i) {
    drift = Saw(absl::Minutes(i), i * absl::Milliseconds(60));
  }
  EXPECT_EQ(drift, absl::Milliseconds(600));
}

TEST_F(ClockDriftTest, ForgetsWhatIsOlderThanTheLongestLease) {
  Saw(absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_EQ(Saw(absl::Minutes(61), absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(Saw(absl::Minutes(61) + absl::Nanoseconds(1), absl::Seconds(1)), absl::ZeroDuration());
}

TEST_F(ClockDriftTest, StartsAnewWhenItForgets) {
  Saw(absl::ZeroDuration(), absl::ZeroDuration());
  drift_.Forget();
  EXPECT_LE(Saw(absl::Seconds(1), absl::Hours(2)), absl::ZeroDuration());
}

}  // namespace
}  // namespace idempotency
