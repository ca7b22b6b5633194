// Judges one run's history by the invariants of docs/simulation.md.
//
// Most answers are held against the rows: at some instant between a call's sending and its answer
// the row must have been such that this answer was the right one.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "tests/simulation/history.h"

namespace idempotency {

// What the history's database promised.
struct CheckTerms {
  absl::Duration replay_window;
  // Whether its clock was set: then a record may end before its ttl, but not before the window.
  bool clock_jumped = false;
};

// The first thing that is wrong, if any is.
std::optional<Violation> CheckHistory(const History& history, const CheckTerms& terms);

}  // namespace idempotency
