// The operations of PostgresStore that have a file of their own. Each does one run of its batch;
// BatchRun runs it again where needed.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/record/decide.h"
#include "server/store/postgres/batch_run.h"
#include "server/store/store.h"

namespace idempotency {

// The items of a batch and what became of each; entries of `results` count where the run says that
// the place is answered.
template <typename Item, typename Result>
struct Batch {
  absl::Span<const Item* const> items;
  std::vector<Result> results;
};

// begin_batch.cc
std::optional<PipelineFailure> BeginOnce(const Policy& policy, BatchRun& run,
                                         Batch<BeginItem, BeginResult>& batch);
// owner_batch.cc
std::optional<PipelineFailure> OwnerOnce(const Policy& policy, BatchRun& run,
                                         Batch<OwnerItem, OwnerResult>& batch);
std::optional<PipelineFailure> KeepRefusedOnce(BatchRun& run, Batch<OwnerItem, bool>& batch);
// probe_batch.cc
std::optional<PipelineFailure> ProbeOnce(BatchRun& run, Batch<LookupItem, ProbeResult>& batch);

template <typename Item>
std::vector<const RecordKey*> KeysOf(absl::Span<const Item* const> items) {
  std::vector<const RecordKey*> keys;
  for (const Item* item : items) keys.push_back(&item->key);
  return keys;
}

}  // namespace idempotency
