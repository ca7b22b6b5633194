// The one who waits for a RunOnce: when it wants no answer any more.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "client/cpp/src/boot_clock.h"
#include "idempotency/client/runner.h"

namespace idempotency::client {

// Thread-safe: constant after construction.
class Caller {
 public:
  Caller() = default;
  explicit Caller(const RunOptions& options);

  // kNone while it waits, then kCancelled or kDeadline.
  StopReason WhyGone() const;
  bool IsGone() const { return WhyGone() != StopReason::kNone; }

  const std::stop_token& cancel() const { return cancel_; }
  // A year away if there is none.
  BootClock::time_point deadline() const { return deadline_; }

  // Sleeps until then, or until the caller is gone.
  void SleepUntil(BootClock::time_point then) const;

 private:
  std::stop_token cancel_;
  BootClock::time_point deadline_ = BootClock::time_point::max();
};

// kCancelled or kDeadlineExceeded. REQUIRES: `why` is kCancelled or kDeadline.
Error GoneError(StopReason why);

}  // namespace idempotency::client
