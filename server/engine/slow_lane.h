// The lane of calls whose row another transaction holds: they are tried again here, on a connection
// of their own, so that one foreign lock does not stop a lane.
//
// All calls of such a key come here until none is left, then its lane has the key again; Begins
// come only once one of them has met the lock. A key is tried with growing pauses; a Begin or Renew
// until its deadline, a Complete or Fail for kFinishPatience whatever its deadline. Then the answer
// is kStoreUnavailable: nothing was done. A Begin may be answered while an older Complete of its
// key is still locked: what it is told is what is recorded.
//
// TryAdd, Close and the destructor may be called from any thread; Step, NextDue and Run from one.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/engine/answers.h"
#include "server/engine/batch_meter.h"
#include "server/engine/call.h"
#include "server/engine/queue.h"
#include "server/engine/refused.h"
#include "server/engine/replay_cache.h"
#include "server/record/decide.h"
#include "server/store/store.h"

namespace idempotency {

class SlowLane {
 public:
  // A bound of its own; a quarter is kept for Complete, Fail and Renew.
  static constexpr size_t kMaxCalls = 1024;
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
  static constexpr absl::Duration kLongestPause = absl::Seconds(1);

  // What it stands between; all must outlive it.
  struct Deps {
    LaneQueues* queues;
    Answers* answers;
    ReplayCache* cache;
    Clock* clock;
    Metrics* metrics;
  };
  SlowLane(const Policy& policy, size_t batch_max_items, size_t max_bytes,
           std::unique_ptr<Store> store, const Deps& deps);

  // Takes the call, or says false and leaves it where it is: a bound is reached.
  // REQUIRES: not closed.
  bool TryAdd(std::unique_ptr<OwnerCall>& call);
  bool TryAdd(std::unique_ptr<BeginCall>& call);
  // Nothing is added after this. Begins and Renews, which were tried, are given up; Run returns
  // when the rest is answered.
  void Close();

  // Tries every key whose pause is over, once. False when closed and empty.
  bool Step();
  // On Clock::BootTime's scale; InfiniteDuration when empty.
  absl::Duration NextDue() const;
  // Steps until Step says false, asleep in between.
  void Run();

 private:
  template <typename Call>
  struct Held {
    std::unique_ptr<Call> call;
    absl::Duration give_up_at;
  };
  // The calls of one key, each kind in the order of its coming.
  struct KeyCalls {
    size_t hash = 0;
    std::deque<Held<OwnerCall>> owners;
    std::deque<Held<BeginCall>> begins;
    // Told in_progress, but willing to wait: that is done in the key's own lane.
    std::vector<std::pair<std::unique_ptr<BeginCall>, BeginResult>> willing_to_wait;
    absl::Duration try_at;
    absl::Duration pause = kFirstPause;
    bool was_tried = false;
    bool is_locked = false;        // as of the last try
    bool has_begins_here = false;  // as far as the key's lane knows

    bool empty() const { return owners.empty() && begins.empty(); }
  };
  using Keys = std::map<RecordKey, KeyCalls>;  // in the order of locks

  template <typename Call>
  bool TryAddTo(std::vector<std::unique_ptr<Call>> Incoming::*calls, Room room,
                std::unique_ptr<Call>& call);
  // Returns whether the lane is closed.
  bool TakeIncoming(absl::Duration now);
  KeyCalls& Find(const RecordKey& key, size_t hash, absl::Duration now);
  template <typename Call>
  void GiveUp(std::deque<Held<Call>>& held, bool is_last_chance_over, absl::Duration now);
  template <typename Call>
  void Answer(std::unique_ptr<Call> call, absl::StatusOr<typename Call::Result> result);
  void Left(size_t bytes);
  std::vector<KeyCalls*> DueKeys(absl::Duration now);
  void RunOwners(const std::vector<KeyCalls*>& due);
  void RunBegins(const std::vector<KeyCalls*>& due);
  void SettleBegins(KeyCalls& key, const BeginResult& first);
  void AnswerOrLetWait(KeyCalls& key, std::unique_ptr<BeginCall> call, BeginResult result);
  void ReleaseIdleKeys(bool closed);
  void ReleaseBegins(KeyCalls& key, bool closed);

  const Policy policy_;
  const size_t batch_max_items_;
  const size_t max_bytes_;
  const std::unique_ptr<Store> store_;
  const Deps deps_;

  // Raised under mu_, lowered by the thread that steps.
  std::atomic<size_t> calls_{0};
  std::atomic<size_t> bytes_{0};

  Mutex mu_;
  CondVar work_;
  Incoming incoming_ ABSL_GUARDED_BY(mu_);

  // Owned by the thread that steps.
  Keys keys_;
  RefusedAnswers refused_;
  BatchMeter meter_;
};

}  // namespace idempotency
