// Faults in what the store makes of a batch.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "server/store/postgres/store_batches.h"
#include "tests/planted/planted.h"

namespace idempotency {

using BeginBatch = Batch<BeginItem, BeginResult>;

std::optional<PipelineFailure>
RealBeginOnce(const Policy& policy, BatchRun& run, BeginBatch& batch) asm(
    "__real__ZN11idempotency9BeginOnceERKNS_6PolicyERNS_8BatchRunERNS_5BatchINS_9BeginItemENS_"
    "11BeginResultEEE");
std::optional<PipelineFailure>
PlantedBeginOnce(const Policy& policy, BatchRun& run, BeginBatch& batch) asm(
    "__wrap__ZN11idempotency9BeginOnceERKNS_6PolicyERNS_8BatchRunERNS_5BatchINS_9BeginItemENS_"
    "11BeginResultEEE");

namespace {

// The same record with its outcome changed as the fault wants it.
std::shared_ptr<const Record> Spoil(std::shared_ptr<const Record> record) {
  if (record == nullptr || record->answer == nullptr) return record;
  const auto* const outcome = std::get_if<Outcome>(record->answer.get());
  if (outcome == nullptr) return record;
  Outcome spoilt = *outcome;
  if (planted::Is("cut-long-bodies") && spoilt.body.has_value() && spoilt.body->size() > 64) {
    spoilt.body->pop_back();
  }
  if (planted::Is("reorder-headers")) std::reverse(spoilt.headers.begin(), spoilt.headers.end());
  auto copy = std::make_shared<Record>(*record);
  copy->answer = std::make_shared<const Answer>(std::move(spoilt));
  return copy;
}

void SpoilResults(const BatchRun& run, BeginBatch& batch) {
  if (planted::Is("swap-results") && batch.results.size() >= 2 && run.IsAnswered(0) &&
      run.IsAnswered(1)) {
    std::swap(batch.results[0], batch.results[1]);
  }
  if (!planted::Is("cut-long-bodies") && !planted::Is("reorder-headers")) return;
  for (size_t i = 0; i < batch.results.size(); ++i) {
    if (run.IsAnswered(i)) batch.results[i].record = Spoil(std::move(batch.results[i].record));
  }
}

}  // namespace

std::optional<PipelineFailure> PlantedBeginOnce(const Policy& policy, BatchRun& run,
                                                BeginBatch& batch) {
  std::optional<PipelineFailure> failure;
  if (planted::Is("rerun-new-attempts")) {
    std::vector<BeginItem> others;
    for (size_t i = 0; i < batch.items.size(); ++i) {
      others.push_back(*batch.items[i]);
      if (run.MayBeWritten(i)) others.back().attempt.bytes[0] ^= 0xff;
    }
    std::vector<const BeginItem*> pointers;
    for (const BeginItem& item : others) pointers.push_back(&item);
    BeginBatch changed{pointers, std::move(batch.results)};
    failure = RealBeginOnce(policy, run, changed);
    batch.results = std::move(changed.results);
  } else {
    failure = RealBeginOnce(policy, run, batch);
  }
  if (!failure.has_value()) SpoilResults(run, batch);
  return failure;
}

}  // namespace idempotency
