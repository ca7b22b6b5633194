#include "server/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

absl::Duration Read(clockid_t id) {
  timespec reading{};
  clock_gettime(id, &reading);
  return absl::DurationFromTimespec(reading);
}

TEST(SystemClock, NowLiesBetweenTwoReadingsOfTheWallClock) {
  const absl::Time before = absl::Now();
  const absl::Time now = SystemClock()->Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, absl::Now());
}

TEST(SystemClock, BootTimeIsTheClockThatCountsSuspend) {
  const absl::Duration before = Read(CLOCK_BOOTTIME);
  const absl::Duration boot_time = SystemClock()->BootTime();
  EXPECT_LE(before, boot_time);
  EXPECT_LE(boot_time, Read(CLOCK_BOOTTIME));
}

TEST(SystemClock, IsOneObject) { EXPECT_EQ(SystemClock(), SystemClock()); }

TEST(FakeClock, StandsStillUntilTold) {
  FakeClock clock;
  EXPECT_EQ(clock.Now(), clock.Now());
  EXPECT_EQ(clock.BootTime(), clock.BootTime());
}

TEST(FakeClock, AdvanceMovesBothClocks) {
  FakeClock clock;
  const absl::Time now = clock.Now();
  const absl::Duration boot_time = clock.BootTime();
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Now() - now, absl::Seconds(5));
  EXPECT_EQ(clock.BootTime() - boot_time, absl::Seconds(5));
}

TEST(FakeClock, StepOfTheWallClockLeavesBootTimeAlone) {
  FakeClock clock;
  const absl::Time now = clock.Now();
  const absl::Duration boot_time = clock.BootTime();
  clock.StepWallClock(-absl::Hours(2));
  EXPECT_EQ(clock.Now() - now, -absl::Hours(2));
  EXPECT_EQ(clock.BootTime(), boot_time);
}

}  // namespace
}  // namespace idempotency
