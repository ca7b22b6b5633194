// Whether the database's clock runs away from this machine's own.
//
// The database's clock is compared with the boot clock, which nobody sets. A reading was taken at
// some instant between asking for it and being told; what both ends cannot explain is drift. It is
// measured against every reading of the last hour, the longest lease: many small steps are seen as
// one large one is, and a slow drift as far as it matters to a lease.
//
// For one thread at a time. Memory is bounded: one entry a minute.
#pragma once

#include <deque>

#include "absl/time/time.h"

namespace idempotency {

class ClockDrift {
 public:
  // A reading that was asked for and told at these instants of Clock::BootTime. Returns by how much
  // at least the clock ran away, in either direction, from where an earlier reading has it; not
  // above zero: the readings agree.
  absl::Duration Saw(absl::Time reading, absl::Duration asked_at, absl::Duration told_at);

  // From now on against later readings only: the drift is noted, or it is another clock.
  void Forget() { spans_.clear(); }

 private:
  // The readings of a minute, as what the clock is ahead of the boot clock by.
  struct Span {
    absl::Duration starts_at;
    absl::Duration at_least;  // the highest of what it is ahead by at least
    absl::Duration at_most;   // the lowest of what it is ahead by at most
  };

  std::deque<Span> spans_;  // oldest first
};

}  // namespace idempotency
