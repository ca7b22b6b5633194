#include "client/cpp/src/boot_clock.h"

#include <algorithm>
#include <ctime>

namespace idempotency::client {
namespace {

constexpr std::chrono::hours kYear(24 * 365);

#if defined(CLOCK_BOOTTIME)
constexpr clockid_t kClock = CLOCK_BOOTTIME;
#else
// Where there is none, as on macOS, this one counts suspended time.
constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif

}  // namespace

BootClock::time_point BootClock::now() noexcept {
  timespec reading{};
  clock_gettime(kClock, &reading);
  return time_point(std::chrono::seconds(reading.tv_sec) +
                    std::chrono::nanoseconds(reading.tv_nsec));
}

BootClock::time_point After(BootClock::time_point from, std::chrono::nanoseconds span) {
  if (span < std::chrono::nanoseconds::zero()) return from;
  return from + std::min<std::chrono::nanoseconds>(span, kYear);
}

BootClock::time_point After(BootClock::time_point from, std::chrono::milliseconds span) {
  // Compared as milliseconds: the longest of them do not fit nanoseconds.
  if (span > kYear) span = kYear;
  if (span < std::chrono::milliseconds::zero()) span = std::chrono::milliseconds::zero();
  return After(from, std::chrono::nanoseconds(span));
}

std::chrono::milliseconds Until(BootClock::time_point then) {
  const auto now = BootClock::now();
  if (then <= now) return std::chrono::milliseconds::zero();
  return std::chrono::duration_cast<std::chrono::milliseconds>(then - now);
}

}  // namespace idempotency::client
