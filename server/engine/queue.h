// The way into a lane: a bounded queue with room reserved for the calls that finish work.
//
// Any thread pushes; one thread, the lane's, takes the Completes, Fails and Renews that are there,
// and of the Begins and Lookups about what a batch holds, from one merchant after the other
// (fair_calls.h). A call counts against the bounds from its Push until the lane says that it left
// (into a batch, to the waiters, dropped), so the bounds hold for what the lane has taken but not
// yet run, too.
//
// When a bound is reached, a Begin or Lookup is refused; but if its merchant has fewer in the queue
// than another one, it is taken, and the newest call of the merchant that has most goes instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/engine/fair_calls.h"
#include "server/record/record.h"

namespace idempotency {

// What a lane takes. Completes, Fails and Renews in the order of their coming, of Begins and
// Lookups those of a merchant.
struct Incoming {
  std::vector<std::unique_ptr<OwnerCall>> owners;
  std::vector<std::unique_ptr<BeginCall>> begins;
  std::vector<std::unique_ptr<LookupCall>> lookups;
  std::vector<RecordKey> left_slow_lane;
  std::vector<RecordKey> begins_left_slow_lane;
  // Begins or Lookups are left in the queue.
  bool has_more = false;
  bool closed = false;

  bool empty() const {
    return owners.empty() && begins.empty() && lookups.empty() && left_slow_lane.empty() &&
           begins_left_slow_lane.empty();
  }
};

class LaneQueue {
 public:
  enum class PushResult { kAccepted, kOverloaded, kDraining };
  static constexpr size_t kAllKeys = std::numeric_limits<size_t>::max();

  // `lane` is the number under which it is counted; `metrics` must outlive this.
  LaneQueue(size_t max_items, size_t max_bytes, Metrics* metrics, size_t lane = 0);

  // Thread-safe. Takes the call, or leaves it where it is and says why. Never blocks for room. What
  // had to make room for it is moved to `shed` and is no longer in the queue: it is to be answered
  // kOverloaded.
  PushResult Push(std::unique_ptr<OwnerCall>& call);
  PushResult Push(std::unique_ptr<BeginCall>& call, ShedCalls* shed);
  PushResult Push(std::unique_ptr<LookupCall>& call, ShedCalls* shed);
  // Thread-safe. As Push, for a call that was accepted before and comes back from the slow lane:
  // only a closed queue refuses it.
  PushResult Return(std::unique_ptr<BeginCall>& call);
  // Thread-safe. The slow lane has no more calls of this key, and may have changed its record.
  void LeftSlowLane(RecordKey key);
  // Thread-safe. The same for Begins alone: a Complete, Fail or Renew is still there.
  void BeginsLeftSlowLane(RecordKey key);
  // Thread-safe. From now on every Push is refused; what is in the queue stays to be taken.
  void Close();

  // The lane's thread only. Returns when something is there to take, the queue is closed, or
  // `at_most` is over.
  void WaitForWork(absl::Duration at_most);
  // The lane's thread only. Never blocks. `incoming` must be empty; its capacity is used again.
  // Takes Begins and Lookups until they have so many keys.
  void Take(Incoming* incoming, size_t begin_keys = kAllKeys, size_t lookup_keys = kAllKeys);

  // The lane's thread only: calls left the bounds, or came back into them. Those that come back
  // always fit, so the bounds are passed by what one batch of each kind holds at the most: nothing
  // new is let in above them.
  void Left(size_t items, size_t bytes);
  void CameBack(size_t items, size_t bytes);

 private:
  template <typename Call>
  PushResult PushShared(std::unique_ptr<Call>& call, ShedCalls* shed);
  // Says whether there is room for a Begin or Lookup of the merchant, after others had to make it.
  bool MakeRoom(const std::string& merchant, size_t bytes, ShedCalls* shed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why there is no room, for the metrics.
  void CountRefusal(Room room);
  void Tell(std::vector<RecordKey> Incoming::*keys, RecordKey key);
  bool HasRoom(Room room, size_t bytes) const;
  void Count(size_t items, size_t bytes);

  const size_t max_items_;
  const size_t max_bytes_;
  Metrics* const metrics_;
  const size_t lane_;

  // Raised under mu_ by those that push, so that two cannot share the last place; lowered by the
  // lane without it.
  std::atomic<size_t> items_{0};
  std::atomic<size_t> bytes_{0};

  Mutex mu_;
  CondVar work_;
  // Without Begins and Lookups: those are in shared_.
  Incoming incoming_ ABSL_GUARDED_BY(mu_);
  FairCalls shared_ ABSL_GUARDED_BY(mu_);
  // The lane sleeps: only then is a signal worth its system call.
  bool sleeping_ ABSL_GUARDED_BY(mu_) = false;
};

// The queues of all lanes. A key always rides in one lane.
class LaneQueues {
 public:
  // Each of `lanes` queues gets its share of the bounds. REQUIRES: lanes > 0.
  LaneQueues(size_t lanes, size_t max_items, size_t max_bytes, Metrics* metrics);

  LaneQueue& Of(size_t key_hash) { return *queues_[(key_hash >> 32) % queues_.size()]; }
  LaneQueue& At(size_t lane) { return *queues_[lane]; }
  void CloseAll();

 private:
  std::vector<std::unique_ptr<LaneQueue>> queues_;
};

}  // namespace idempotency
