// The way into a lane: a bounded queue with room reserved for the calls that finish work.
//
// Any thread pushes; one thread, the lane's, takes everything that is there and forms its batches
// from what it took. A call counts against the bounds from its Push until the lane says that it
// left (into a batch, to the waiters, dropped), so the bounds hold for what the lane has taken but
// not yet run, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/record.h"

namespace idempotency {

// What came in since the lane took last, each kind in the order of its coming.
struct Incoming {
  std::vector<std::unique_ptr<OwnerCall>> owners;
  std::vector<std::unique_ptr<BeginCall>> begins;
  std::vector<std::unique_ptr<LookupCall>> lookups;
  std::vector<RecordKey> left_slow_lane;
  std::vector<RecordKey> begins_left_slow_lane;
  bool closed = false;

  bool empty() const {
    return owners.empty() && begins.empty() && lookups.empty() && left_slow_lane.empty() &&
           begins_left_slow_lane.empty();
  }
};

class LaneQueue {
 public:
  enum class PushResult { kAccepted, kOverloaded, kDraining };

  // `lane` is the number under which it is counted; `metrics` must outlive this.
  LaneQueue(size_t max_items, size_t max_bytes, Metrics* metrics, size_t lane = 0);

  // Thread-safe. Takes the call, or leaves it where it is and says why. Never blocks for room.
  PushResult Push(std::unique_ptr<OwnerCall>& call);
  PushResult Push(std::unique_ptr<BeginCall>& call);
  PushResult Push(std::unique_ptr<LookupCall>& call);
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
  void Take(Incoming* incoming);

  // The lane's thread only: calls left the bounds, or came back into them. Those that come back
  // always fit, so the bounds are passed by what one batch of each kind holds at the most: nothing
  // new is let in above them.
  void Left(size_t items, size_t bytes);
  void CameBack(size_t items, size_t bytes);

 private:
  template <typename Call>
  PushResult PushInto(std::vector<std::unique_ptr<Call>> Incoming::*calls, Room room,
                      std::unique_ptr<Call>& call);
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
  Incoming incoming_ ABSL_GUARDED_BY(mu_);
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
