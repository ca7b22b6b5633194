// One run of the engine on a simulated database, every step of which follows from a seed.
//
// The engines are the real ones (server/engine), two replicas of them on one database; the database
// is the model (tests/util/model_store.h) at the end of a bad line (faulty_store.h); the clocks
// stand still unless the simulation moves them. Lanes, slow lanes and sweepers are actors of Turns:
// the simulation decides who goes on, so every interleaving of their batches can come about, and
// the same seed gives the same one. Callers begin, finish, renew, repeat, come late, wait, leave
// and lie about the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/defect.h"
#include "tests/simulation/history.h"

namespace idempotency {

struct SimulationOptions {
  uint64_t seed = 1;
  // So many choices are made before the faults end and everything is driven to its end.
  size_t actions = 400;
  // For tests of the checker.
  Defect defect = Defect::kNone;
  // Whether `trace` is wanted.
  bool is_traced = false;
};

struct SimulationResult {
  std::optional<Violation> violation;
  // Of all that happened: two runs that differ have different ones.
  uint64_t digest = 0;
  size_t calls = 0;
  // What was met, so that a test can see that the simulation is worth something.
  size_t starts = 0, takeovers = 0, replays = 0, waits = 0, unknown = 0, refused = 0;
  // One line an event, in their order.
  std::vector<std::string> trace;
};

// Thread-safe.
SimulationResult Simulate(const SimulationOptions& options);

// For people: what is wrong, how to see it again, and the fewest actions with which it goes wrong.
std::string Explain(const SimulationOptions& options, const Violation& violation);

}  // namespace idempotency
