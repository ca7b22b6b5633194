#include "server/record/clock_guard.h"

#include <algorithm>

#include "server/record/limit.h"

namespace idempotency {

ClockLimits LimitsOf(const Policy& policy) {
  // Fixed fractions of the margin, and no more than those of the default one: a wider margin is for
  // clients whose clocks are worse, not for a guard that looks away for longer.
  const absl::Duration margin = policy.skew_margin < kShortestSkewMargin
                                    ? kDefaultSkewMargin
                                    : std::min(policy.skew_margin, kDefaultSkewMargin);
  return {.refresh_interval = margin / 8, .longest_gap = margin / 2, .longest_drift = margin / 4};
}

Reading ReadingBy(const ClockGuard& guard, absl::Time now, bool is_same_history,
                  const Policy& policy) {
  Reading reading = {
      .now = now, .last_jump_at = guard.last_jump_at, .token_offset_us = guard.token_offset_us};
  const bool ran_back = now < guard.reading;
  if (ran_back) reading.token_offset_us += absl::ToInt64Microseconds(guard.reading - now);
  if (ran_back || !is_same_history || now > guard.reading + LimitsOf(policy).longest_gap) {
    reading.last_jump_at = now;
  }
  return reading;
}

}  // namespace idempotency
