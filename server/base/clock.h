// The two clocks a replica has of its own.
//
// Neither decides anything about a record: that is the database's clock. The wall clock is for
// logs, the boot clock measures how long something took or may still take on this machine.
#pragma once

#include "absl/time/time.h"

namespace idempotency {

// Thread-safe: every implementation may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // The wall clock. It may jump, in both directions: for logs only.
  virtual absl::Time Now() = 0;

  // Time since the machine was booted, suspend included. Never goes back, is not moved by anyone
  // who sets the clock, and means nothing on another machine.
  virtual absl::Duration BootTime() = 0;
};

// The machine's clocks. Never null; lives as long as the process.
Clock* SystemClock();

}  // namespace idempotency
