#include "server/engine/batch.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace idempotency {
namespace {

// A call's key with the hash that the call carries. Valid as long as the call.
struct KeyRef {
  const RecordKey* key;
  size_t hash;
};
struct HashOfKeyRef {
  size_t operator()(const KeyRef& ref) const { return ref.hash; }
};
struct SameKey {
  bool operator()(const KeyRef& a, const KeyRef& b) const {
    return a.hash == b.hash && *a.key == *b.key;
  }
};

std::optional<Fault> ReasonToDrop(const CallBase& call, bool is_droppable, absl::Duration now) {
  if (!is_droppable) return std::nullopt;
  if (call.HasLeft()) return Fault::kCancelled;
  if (call.IsPastDeadline(now)) return Fault::kDeadlineExceeded;
  return std::nullopt;
}

}  // namespace

template <typename Call>
std::vector<const typename Call::Item*> CallBatch<Call>::Items() const {
  std::vector<const typename Call::Item*> items;
  items.reserve(groups.size());
  for (const CallGroup<Call>& group : groups) items.push_back(&group.first->item);
  return items;
}

template <typename Call>
CallBatch<Call> FormBatch(std::deque<std::unique_ptr<Call>>& pending, const BatchLimits& limits,
                          Repeats repeats, absl::Duration now) {
  CallBatch<Call> batch;
  if (pending.empty()) return batch;
  absl::flat_hash_map<KeyRef, size_t, HashOfKeyRef, SameKey> group_of_key;
  group_of_key.reserve(std::min(pending.size(), limits.max_items));
  std::vector<std::unique_ptr<Call>> kept;
  size_t bytes = 0;
  while (!pending.empty()) {
    Call& call = *pending.front();
    const std::optional<Fault> reason = ReasonToDrop(call, call.IsDroppable(), now);
    const KeyRef key{&call.item.key, call.hash};
    const auto found = reason.has_value() ? group_of_key.end() : group_of_key.find(key);
    if (!reason.has_value() && found == group_of_key.end()) {
      if (batch.groups.size() >= limits.max_items) break;
      if (!batch.groups.empty() && bytes + call.bytes > limits.max_bytes) break;
      bytes += call.bytes;
      group_of_key.emplace(key, batch.groups.size());
      batch.groups.push_back({.first = std::move(pending.front())});
    } else if (reason.has_value()) {
      batch.dropped.emplace_back(std::move(pending.front()), *reason);
    } else if (repeats == Repeats::kFollow) {
      batch.groups[found->second].followers.push_back(std::move(pending.front()));
    } else {
      kept.push_back(std::move(pending.front()));
      pending.pop_front();
      continue;
    }
    ++batch.taken_items;
    batch.taken_bytes += call.bytes;
    pending.pop_front();
  }
  ReturnToFront(kept, pending);
  std::sort(batch.groups.begin(), batch.groups.end(),
            [](const CallGroup<Call>& a, const CallGroup<Call>& b) {
              return a.first->item.key < b.first->item.key;
            });
  return batch;
}

template struct CallBatch<BeginCall>;
template struct CallBatch<OwnerCall>;
template struct CallBatch<LookupCall>;
template CallBatch<BeginCall> FormBatch(std::deque<std::unique_ptr<BeginCall>>&, const BatchLimits&,
                                        Repeats, absl::Duration);
template CallBatch<OwnerCall> FormBatch(std::deque<std::unique_ptr<OwnerCall>>&, const BatchLimits&,
                                        Repeats, absl::Duration);
template CallBatch<LookupCall> FormBatch(std::deque<std::unique_ptr<LookupCall>>&,
                                         const BatchLimits&, Repeats, absl::Duration);

}  // namespace idempotency
