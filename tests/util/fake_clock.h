// A clock for tests that moves only when the test moves it.
#pragma once

#include "absl/time/time.h"
#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace idempotency {

// Thread-safe. Starts at 2026-01-01T00:00:00Z, one hour after boot.
class FakeClock : public Clock {
 public:
  absl::Time Now() override {
    MutexLock lock(&mu_);
    return now_;
  }

  absl::Duration BootTime() override {
    MutexLock lock(&mu_);
    return boot_time_;
  }

  // Lets time pass: both clocks move. REQUIRES: by is not negative.
  void Advance(absl::Duration by) {
    IDEM_CHECK(by >= absl::ZeroDuration()) << "a boot clock does not go back";
    MutexLock lock(&mu_);
    now_ += by;
    boot_time_ += by;
  }

  // Somebody sets the wall clock: the boot clock does not notice. `by` may be negative.
  void StepWallClock(absl::Duration by) {
    MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1767225600);
  absl::Duration boot_time_ ABSL_GUARDED_BY(mu_) = absl::Hours(1);
};

}  // namespace idempotency
