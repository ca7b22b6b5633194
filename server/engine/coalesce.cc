#include "server/engine/coalesce.h"

#include "server/base/check.h"

namespace idempotency {

std::optional<BeginResult> Coalesce(const BeginItem& item, const BeginResult& first,
                                    const Policy& policy) {
  IDEM_CHECK(item.key == first.record->key) << "an answer from another key's row";
  const BeginDecision decision = DecideBegin(first.record.get(), item, first.reading, policy);
  if (decision.next.has_value()) return std::nullopt;
  return BeginResult{.verdict = decision.verdict,
                     .repeated = decision.repeated,
                     .record = first.record,
                     .reading = first.reading};
}

}  // namespace idempotency
