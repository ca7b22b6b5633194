// Refused Completes and Fails on their way to their records, where they are kept as evidence.
//
// Owned by one lane's thread. Best effort and bounded: what cannot be kept is counted and changes
// no answer (the refusal itself was logged and counted when it happened).
#pragma once

#include <cstddef>

#include "absl/container/btree_map.h"
#include "server/base/metrics.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

class RefusedAnswers {
 public:
  // At most this many keys are held between two batches.
  static constexpr size_t kMaxItems = 256;

  // `metrics` must outlive this.
  explicit RefusedAnswers(Metrics* metrics) : metrics_(metrics) {}

  // Only the last one of a key and batch is kept; the one before it counts as failed.
  void Add(const OwnerItem& item);
  // Ends a batch: writes what the batch before added. What this one added is due next time, so that
  // the batch that found it is not made longer by it.
  void Keep(Store* store);

  bool empty() const { return fresh_.empty() && due_.empty(); }

 private:
  using Items = absl::btree_map<RecordKey, OwnerItem>;

  Metrics* const metrics_;
  Items fresh_;  // of the batch that runs
  Items due_;    // of the batch before
};

}  // namespace idempotency
