// The clock that leases and budgets are measured on: runs only forward, and counts the time that
// the machine is suspended.
#pragma once

#include <chrono>

namespace idempotency::client {

struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept;
};

// `from` + `span` without overflow: a span that reaches further than a year counts as a year, one
// below zero as zero.
BootClock::time_point After(BootClock::time_point from, std::chrono::nanoseconds span);
BootClock::time_point After(BootClock::time_point from, std::chrono::milliseconds span);

// From now to `then`, rounded down; never negative.
std::chrono::milliseconds Until(BootClock::time_point then);

}  // namespace idempotency::client
