#include "server/engine/refused.h"

#include <utility>
#include <vector>

#include "server/base/check.h"

namespace idempotency {

void RefusedAnswers::Add(const OwnerItem& item) {
  const auto found = fresh_.find(item.key);
  if (found != fresh_.end()) {
    found->second = item;
    metrics_->Add(Metric::kRefusedKeepFailed);
  } else if (fresh_.size() < kMaxItems) {
    fresh_.emplace(item.key, item);
  } else {
    metrics_->Add(Metric::kRefusedKeepFailed);
  }
}

void RefusedAnswers::Keep(Store* store) {
  if (!due_.empty()) {
    std::vector<const OwnerItem*> items;
    items.reserve(due_.size());
    for (const auto& [key, item] : due_) items.push_back(&item);
    const BatchResults<bool> results = store->KeepRefusedBatch(items);
    IDEM_CHECK(results.size() == items.size()) << "store broke its contract";
    for (const absl::StatusOr<bool>& kept : results) {
      if (!kept.ok()) {
        metrics_->Add(Metric::kRefusedKeepFailed);
      } else if (*kept) {
        metrics_->Add(Metric::kRefusedKept);
      }
    }
    due_.clear();
  }
  std::swap(due_, fresh_);
}

}  // namespace idempotency
