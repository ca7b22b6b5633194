// Faults in what becomes of a call that waits in a lane.
#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "server/engine/batch.h"
#include "tests/planted/planted.h"

namespace idempotency {

using OwnerCalls = std::deque<std::unique_ptr<OwnerCall>>;

CallBatch<OwnerCall> RealFormBatch(OwnerCalls& pending, const BatchLimits& limits, Repeats repeats,
                                   absl::Duration now) asm("__real_" IDEM_FORM_OWNER_BATCH);
CallBatch<OwnerCall> PlantedFormBatch(OwnerCalls& pending, const BatchLimits& limits,
                                      Repeats repeats,
                                      absl::Duration now) asm("__wrap_" IDEM_FORM_OWNER_BATCH);

CallBatch<OwnerCall> PlantedFormBatch(OwnerCalls& pending, const BatchLimits& limits,
                                      Repeats repeats, absl::Duration now) {
  if (!planted::Is("drop-departed-completes")) return RealFormBatch(pending, limits, repeats, now);
  const auto stays = [now](const std::unique_ptr<OwnerCall>& call) {
    return !call->HasLeft() && !call->IsPastDeadline(now);
  };
  const auto departed = std::stable_partition(pending.begin(), pending.end(), stays);
  OwnerCalls gone(std::make_move_iterator(departed), std::make_move_iterator(pending.end()));
  pending.erase(departed, pending.end());
  CallBatch<OwnerCall> batch = RealFormBatch(pending, limits, repeats, now);
  for (std::unique_ptr<OwnerCall>& call : gone) {
    ++batch.taken_items;
    batch.taken_bytes += call->bytes;
    batch.dropped.emplace_back(std::move(call), Fault::kCancelled);
  }
  return batch;
}

}  // namespace idempotency
