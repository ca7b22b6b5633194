// Forming a batch from the calls that wait in a lane.
//
// A batch has each key once: the first call of a key goes to the store, and what becomes of the
// others is the caller's choice (Repeats). Functions of the lane's own state: no locks.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/call.h"
#include "server/record/fault.h"

namespace idempotency {

struct BatchLimits {
  size_t max_items = 256;
  size_t max_bytes = 0;
};

// What happens to a second call of a key.
enum class Repeats {
  kFollow,  // it joins the first one's group and is answered from the first one's row
  kWait,    // it stays in the queue, in its order, for the next batch
};

template <typename Call>
struct CallGroup {
  std::unique_ptr<Call> first;
  std::vector<std::unique_ptr<Call>> followers;  // in the order of their coming
};

template <typename Call>
struct CallBatch {
  // Sorted by key, which is the order of locks; no key twice. `max_items` and `max_bytes` bound the
  // first calls; followers cost the database nothing and are bounded by the queue.
  std::vector<CallGroup<Call>> groups;
  // Deadline passed or caller left, and nothing was sent: to be answered with this fault.
  std::vector<std::pair<std::unique_ptr<Call>, Fault>> dropped;
  // What all of these together take out of the queue.
  size_t taken_items = 0;
  size_t taken_bytes = 0;

  // What the store is handed: the first calls' items. Valid as long as the groups are not changed.
  std::vector<const typename Call::Item*> Items() const;
};

// Takes calls from the front of `pending`, as many as the limits allow but at least one, so that a
// call larger than `max_bytes` is not stuck for ever. `now` is on Clock::BootTime's scale.
// Defined for BeginCall, OwnerCall and LookupCall.
template <typename Call>
CallBatch<Call> FormBatch(std::deque<std::unique_ptr<Call>>& pending, const BatchLimits& limits,
                          Repeats repeats, absl::Duration now);

// Back to the front, keeping their order.
template <typename Call>
void ReturnToFront(std::vector<std::unique_ptr<Call>>& calls,
                   std::deque<std::unique_ptr<Call>>& pending) {
  for (auto it = calls.rbegin(); it != calls.rend(); ++it) pending.push_front(std::move(*it));
  calls.clear();
}

}  // namespace idempotency
