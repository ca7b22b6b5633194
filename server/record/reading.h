// A reading of the database's clock, with what the clock guard knows of that clock.
//
// The clock decides everything, and it may be wrong: a promoted node's clock is another one, and a
// live one may be stepped. The guard notices both (docs/adr/0010). A reading and what is known of
// its clock therefore travel together, from the statement that read them to the last decision that
// is made on them. A plain value.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace idempotency {

struct Reading {
  absl::Time now;
  // Until then the clock may have jumped, so what was counted before it counts anew from it
  // (leases) or not yet (expiry). Never after `now`; InfinitePast: no jump is known.
  absl::Time last_jump_at = absl::InfinitePast();
  // What the clock was set back by, all steps together, in microseconds: fencing tokens are the
  // clock plus this.
  int64_t token_offset_us = 0;

  friend bool operator==(const Reading&, const Reading&) = default;
};

}  // namespace idempotency
