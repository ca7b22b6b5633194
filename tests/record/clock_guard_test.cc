// What a reading of the clock is worth beside the guard's row, and what decisions make of it.
#include "server/record/clock_guard.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>

#include "server/record/limit.h"
#include "tests/util/model_state_machine.h"

namespace idempotency {
namespace {

constexpr absl::Duration kMicro = absl::Microseconds(1);
constexpr absl::Duration kLease = absl::Seconds(60);
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);
const Policy kPolicy;

BeginItem BeginOf(int attempt) {
  BeginItem item;
  item.key = {"m1", "order-1"};
  item.operation = "POST /orders";
  item.attempt = HashAttemptId(attempt == 1 ? "attempt-1" : "attempt-2");
  item.ttl = absl::Hours(24);
  item.lease_duration = kLease;
  return item;
}

OwnerItem RenewOf(absl::Duration lease) {
  OwnerItem item;
  item.key = {"m1", "order-1"};
  item.attempt = HashAttemptId("attempt-1");
  item.lease_duration = lease;
  return item;
}

OwnerItem CompleteOf() {
  OwnerItem item = RenewOf(absl::ZeroDuration());
  item.answer = std::make_shared<const Answer>(Outcome{});
  return item;
}

Record Begun(absl::Time at) { return *DecideBegin(nullptr, BeginOf(1), {.now = at}, kPolicy).next; }
Record Completed(absl::Time at) {
  const Record begun = Begun(at);
  return *DecideOwner(&begun, CompleteOf(), {.now = at}, kPolicy).next;
}

ClockGuard GuardAt(absl::Time reading) { return {.reading = reading}; }

TEST(ClockLimits, FitTwiceTheDriftAndTheGapIntoTheMargin) {
  for (absl::Duration margin = kShortestSkewMargin; margin <= absl::Minutes(1);
       margin += absl::Milliseconds(7)) {
    Policy policy;
    policy.skew_margin = margin;
    const ClockLimits limits = LimitsOf(policy);
    EXPECT_LE(2 * limits.longest_drift + limits.longest_gap, margin);
    EXPECT_LE(4 * limits.refresh_interval, limits.longest_gap);
    EXPECT_GT(limits.refresh_interval, absl::ZeroDuration());
  }
}

TEST(ClockLimits, AreThoseOfTheDefaultMarginAboveItAndForTestsBelow) {
  for (const absl::Duration margin : {absl::Milliseconds(1), kShortestSkewMargin - kMicro,
                                      kDefaultSkewMargin, absl::Minutes(1)}) {
    Policy policy;
    policy.skew_margin = margin;
    EXPECT_EQ(LimitsOf(policy).refresh_interval, absl::Milliseconds(250)) << margin;
    EXPECT_EQ(LimitsOf(policy).longest_gap, absl::Seconds(1)) << margin;
    EXPECT_EQ(LimitsOf(policy).longest_drift, absl::Milliseconds(500)) << margin;
  }
}

TEST(ReadingBy, IsAsTheRowSaysWithinTheGap) {
  ClockGuard guard = GuardAt(kStart);
  guard.last_jump_at = kStart - absl::Hours(1);
  guard.token_offset_us = 7;
  for (const absl::Duration gap : {absl::ZeroDuration(), LimitsOf(kPolicy).longest_gap}) {
    const Reading reading = ReadingBy(guard, kStart + gap, true, kPolicy);
    EXPECT_EQ(reading, (Reading{kStart + gap, guard.last_jump_at, 7})) << gap;
  }
}

TEST(ReadingBy, HasJumpedNowWhenItIsBeforeTheRowsReading) {
  ClockGuard guard = GuardAt(kStart);
  guard.token_offset_us = 7;
  EXPECT_EQ(ReadingBy(guard, kStart - kMicro, true, kPolicy),
            (Reading{kStart - kMicro, kStart - kMicro, 8}));
  const absl::Time back = kStart - absl::Hours(2);
  EXPECT_EQ(ReadingBy(guard, back, true, kPolicy), (Reading{back, back, 7'200'000'007}));
}

TEST(ReadingBy, HasJumpedNowWhenItIsMoreThanTheGapAfterTheRowsReading) {
  const absl::Time after = kStart + LimitsOf(kPolicy).longest_gap + kMicro;
  EXPECT_EQ(ReadingBy(GuardAt(kStart), after, true, kPolicy), (Reading{after, after, 0}));
}

TEST(ReadingBy, HasJumpedNowWhenTheRowIsOfAnotherHistoryOrMissing) {
  EXPECT_EQ(ReadingBy(GuardAt(kStart), kStart, false, kPolicy), (Reading{kStart, kStart, 0}));
  EXPECT_EQ(ReadingBy(ClockGuard(), kStart, true, kPolicy), (Reading{kStart, kStart, 0}));
}

TEST(ReadingBy, AgreesWithTheModel) {
  for (const int64_t offset : {0, 5}) {
    for (const bool is_same : {true, false}) {
      for (const int64_t gap_us : std::initializer_list<int64_t>{
               -7'200'000'000, -1, 0, 1, 999'999, 1'000'000, 1'000'001, 7'200'000'000}) {
        for (const absl::Duration margin :
             {absl::Milliseconds(1), absl::Seconds(1), absl::Seconds(2), absl::Seconds(60)}) {
          Policy policy;
          policy.skew_margin = margin;
          ClockGuard guard = GuardAt(kStart);
          guard.last_jump_at = kStart - absl::Minutes(1);
          guard.token_offset_us = offset;
          const absl::Time now = kStart + absl::Microseconds(gap_us);
          EXPECT_EQ(ReadingBy(guard, now, is_same, policy),
                    ModelReading(guard, now, is_same, policy))
              << gap_us << " " << margin;
        }
      }
    }
  }
}

TEST(JumpedClock, LeaseHasItsWholeDurationAgainFromTheJumpOn) {
  const Record record = Begun(kStart);
  // Two hours ahead, noted at once.
  const absl::Time jump = kStart + absl::Hours(2);
  const absl::Time over = jump + kLease + kPolicy.skew_margin;
  EXPECT_FALSE(IsLeaseOver(record, {jump, jump}, kPolicy));
  EXPECT_FALSE(IsLeaseOver(record, {over, jump}, kPolicy));
  EXPECT_TRUE(IsLeaseOver(record, {over + kMicro, jump}, kPolicy));
  EXPECT_TRUE(IsLeaseOver(record, {over, jump - kMicro}, kPolicy));
}

TEST(JumpedClock, LeaseThatEndsLaterIsNotCutShort) {
  const Record record = Begun(kStart);
  const absl::Time jump = kStart - absl::Hours(2);
  EXPECT_EQ(LeaseOverAfter(record, {jump + kLease + kLease, jump}, kPolicy),
            record.lease_expires_at + kPolicy.skew_margin);
}

TEST(JumpedClock, ReadingThatJumpsItselfEndsNoLease) {
  const Record record = Begun(kStart);
  const absl::Time now = kStart + absl::Hours(1000);
  const Reading reading = {now, now};
  EXPECT_EQ(DecideBegin(&record, BeginOf(2), reading, kPolicy).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(RetryAfter(record, reading, kPolicy), kMaxRetryAfter);
  EXPECT_EQ(LeaseRemaining(record, now), absl::ZeroDuration());
}

TEST(JumpedClock, RetryAfterRunsUntilTheLeaseIsOver) {
  const Record record = Begun(kStart);
  const absl::Time jump = kStart + absl::Hours(2);
  const absl::Time over = jump + kLease + kPolicy.skew_margin;
  EXPECT_EQ(RetryAfter(record, {over - absl::Seconds(1), jump}, kPolicy), absl::Seconds(1));
}

TEST(JumpedClock, ShorterRenewalDoesNotShortenWhatTheJumpGives) {
  Record record = Begun(kStart);
  record = *DecideOwner(&record, RenewOf(absl::Seconds(1)), {.now = kStart}, kPolicy).next;
  const absl::Time jump = kStart + absl::Hours(2);
  EXPECT_EQ(LeaseOverAfter(record, {jump, jump}, kPolicy), jump + kLease + kPolicy.skew_margin);
}

TEST(JumpedClock, NothingExpiresForTenMinutesAfterAJump) {
  const Record record = Completed(kStart);
  const absl::Time jump = kStart + absl::Hours(100);
  const absl::Time end = jump + absl::Minutes(10);
  BeginItem other_body = BeginOf(2);
  other_body.fingerprint.fill(9);
  EXPECT_FALSE(IsExpired(record, {end, jump}, kPolicy));
  EXPECT_EQ(DecideBegin(&record, BeginOf(2), {end, jump}, kPolicy).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(DecideBegin(&record, other_body, {end, jump}, kPolicy).verdict,
            BeginVerdict::kKeyReused);
  EXPECT_TRUE(IsExpired(record, {end + kMicro, jump}, kPolicy));
  EXPECT_EQ(DecideBegin(&record, BeginOf(2), {end + kMicro, jump}, kPolicy).verdict,
            BeginVerdict::kStarted);
}

TEST(JumpedClock, ExpiryPausesNoLongerThanAShortReplayWindow) {
  Policy policy;
  policy.replay_window = absl::Seconds(3);
  EXPECT_EQ(ExpiryPause(policy), absl::Seconds(3));
  policy.replay_window = absl::Minutes(10);
  EXPECT_EQ(ExpiryPause(policy), absl::Minutes(10));
  policy.replay_window = absl::Hours(24);
  EXPECT_EQ(ExpiryPause(policy), absl::Minutes(10));
}

TEST(JumpedClock, TokensAreTheClockAndTheStepsBack) {
  const Reading reading = {kStart, kStart, 7'200'000'000};
  const Record first = *DecideBegin(nullptr, BeginOf(1), reading, kPolicy).next;
  EXPECT_EQ(first.fencing_token, absl::ToUnixMicros(kStart) + 7'200'000'000);
  EXPECT_EQ(first.created_at, kStart);
  EXPECT_LT(first.fencing_token, int64_t{1} << 53);
}

TEST(JumpedClock, NextTokenGrowsAlsoWhenTheClockIsBehindTheLastOne) {
  const Record first = Begun(kStart);
  OwnerItem failed = CompleteOf();
  failed.answer = std::make_shared<const Answer>(Failure{.disposition = Disposition::kNotApplied});
  const Record released = *DecideOwner(&first, failed, {.now = kStart}, kPolicy).next;
  const absl::Time back = kStart - absl::Hours(2);
  EXPECT_EQ(DecideBegin(&released, BeginOf(2), {.now = back}, kPolicy).next->fencing_token,
            first.fencing_token + 1);
  EXPECT_EQ(
      DecideBegin(&released, BeginOf(2), {back, back, 7'200'000'005}, kPolicy).next->fencing_token,
      first.fencing_token + 5);
}

}  // namespace
}  // namespace idempotency
