// What is known of the database's clock, and what a reading of it is worth.
//
// Every replica writes the clock's reading into one row again and again (app/clock_watch.h).
// Whoever decides on a reading holds it against that row: a clock that is behind the row's reading,
// or more than a gap after it, jumped, and nobody has noted it yet. A jump that is smaller than the
// gap, and drift that no replica sees, is what the skew margin is for: twice the drift and the gap
// fit in it.
//
// Pure functions and plain values.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/record/decide.h"
#include "server/record/reading.h"

namespace idempotency {

// The row. What is not known yet is as far in the past as can be.
struct ClockGuard {
  absl::Time reading = absl::InfinitePast();
  absl::Time last_jump_at = absl::InfinitePast();  // never after `reading`
  int64_t token_offset_us = 0;                     // only grows

  friend bool operator==(const ClockGuard&, const ClockGuard&) = default;
};

struct ClockLimits {
  // How often a replica looks at the clock.
  absl::Duration refresh_interval;
  // From one reading to the next; above it the clock may have jumped meanwhile.
  absl::Duration longest_gap;
  // How far the clock may run away from a replica's own.
  absl::Duration longest_drift;
};

// For the policy's skew margin: 2 * longest_drift + longest_gap <= skew_margin, and four looks in a
// gap. A margin below kShortestSkewMargin, which only tests may set, cannot be kept by any limits:
// it gets those of the default margin and promises nothing about clocks.
ClockLimits LimitsOf(const Policy& policy);

// `now` as it is to be decided on. `is_same_history`: the row was written in the history of commits
// that the database continues (not before a promotion). When the clock jumped and the row does not
// say so yet, the jump is now.
Reading ReadingBy(const ClockGuard& guard, absl::Time now, bool is_same_history,
                  const Policy& policy);

}  // namespace idempotency
