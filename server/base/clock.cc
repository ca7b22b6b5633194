#include "server/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

class MachineClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }

  absl::Duration BootTime() override {
    timespec reading{};
    // CLOCK_BOOTTIME and not CLOCK_MONOTONIC, which stands still while the machine is suspended: a
    // lease does not.
    IDEM_CHECK(clock_gettime(CLOCK_BOOTTIME, &reading) == 0) << "every Linux since 2.6.39 has it";
    return absl::DurationFromTimespec(reading);
  }
};

}  // namespace

Clock* SystemClock() {
  // Leaked on purpose: threads may read it while static objects are being destroyed.
  static MachineClock* const clock = new MachineClock;
  return clock;
}

}  // namespace idempotency
