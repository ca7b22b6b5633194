// A history as text, and as one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/history.h"

namespace idempotency {

// Something that neither a caller nor a row did.
struct WorldEvent {
  Tick at = 0;
  std::string what;
};

// One line an event, in their order.
std::vector<std::string> TraceOf(const History& history, const std::vector<WorldEvent>& world);

// Another one for another history.
uint64_t DigestOf(const History& history);

}  // namespace idempotency
