// Random calls and clock moves for the sequence test: few merchants, keys and attempts, so that
// they meet often, and instants that land on the boundaries of the rules more often than beside
// them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "tests/util/model_store.h"

namespace idempotency {

// For one thread. The sequence depends on the seed, and on the model's state when it is asked.
class RandomCalls {
 public:
  // `model` must outlive it.
  RandomCalls(uint64_t seed, const Policy& policy, ModelDatabase* model);

  // Batches of 1 to 64 items, sorted, keys distinct.
  std::vector<BeginItem> Begins();
  std::vector<OwnerItem> OwnerCalls();
  std::vector<LookupItem> Lookups();

  // An instant for the clock: exactly on, or 1 µs past, a boundary of some record; or just later.
  absl::Time NextInstant();
  // By how much the clock jumps: little and much, in both directions, and the guard's bounds.
  absl::Duration Jump();

  // True in `percent` of all cases.
  bool Chance(int percent) { return Below(100) < percent; }
  // 0 .. bound-1.
  int Below(int bound);

  static std::vector<RecordKey> AllKeys();

 private:
  std::vector<RecordKey> DistinctKeys();
  AttemptHash AttemptFor(const RecordKey& key);
  std::shared_ptr<const Answer> RandomAnswer();
  Outcome RandomOutcome();

  std::mt19937_64 random_;
  const Policy policy_;
  ModelDatabase* const model_;
};

}  // namespace idempotency
