// One lane: a thread, a Store, and the calls of the keys that ride in it.
//
// A step takes what queued up while the step before was with the database (group commit: there is
// no timer before a batch) and runs it as up to five batches: Complete, Fail and Renew; Begin;
// Lookup; a probe of the keys that are waited for, when it is due; the refused answers of the step
// before. Each is bounded in items and bytes. Callers are answered only after the store has
// returned.
//
// Step, NextDue and Run are for one thread; it owns everything here but the queue.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/engine/admission.h"
#include "server/engine/answers.h"
#include "server/engine/batch.h"
#include "server/engine/batch_meter.h"
#include "server/engine/call.h"
#include "server/engine/queue.h"
#include "server/engine/refused.h"
#include "server/engine/replay_cache.h"
#include "server/engine/slow_lane.h"
#include "server/engine/waiters.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

class Lane {
 public:
  // What it stands between; all must outlive it.
  struct Deps {
    LaneQueue* queue;
    SlowLane* slow_lane;
    Admission* admission;
    Answers* answers;
    ReplayCache* cache;
    Clock* clock;
    Metrics* metrics;
    size_t number = 0;  // among the lanes, for the metrics
  };
  Lane(const Policy& policy, const BatchLimits& limits, size_t waits_per_key_max,
       std::unique_ptr<Store> store, const Deps& deps);

  // Never sleeps. False when the queue is closed and everything that was accepted is answered or
  // handed to the slow lane.
  bool Step();
  // When a step has something to do although nothing comes in, on Clock::BootTime's scale.
  absl::Duration NextDue() const;
  // Steps until Step says false, asleep while there is nothing to do.
  void Run();

 private:
  // Returns whether the queue is closed.
  bool TakeIncoming();
  void WakeWaiters(absl::Duration now);
  void DismissWaiters(absl::Duration now);
  // Calls of keys that are in the slow lane follow them there.
  void SetAsideSlowKeys();
  template <typename Call>
  void SetAside(std::deque<std::unique_ptr<Call>>& pending,
                const absl::flat_hash_set<RecordKey>& keys);
  // For a call whose row is locked: to the slow lane. If that is full, a Complete or Fail is for
  // this lane to try `again`, and the others are answered so.
  void MoveToSlowLane(std::unique_ptr<OwnerCall> call,
                      std::vector<std::unique_ptr<OwnerCall>>& again);
  void MoveToSlowLane(std::unique_ptr<BeginCall> call);

  // When the batch before had no room to read the first calls of `pending`, they alone make this
  // one: among others, as rows are read in the order of their keys, one might be left over again
  // and again.
  template <typename Call>
  CallBatch<Call> TakeBatch(std::deque<std::unique_ptr<Call>>& pending, Repeats repeats,
                            CallKind kind);
  template <typename Call>
  void ReturnCalls(std::vector<std::unique_ptr<Call>>& calls,
                   std::deque<std::unique_ptr<Call>>& pending);
  void RunOwners();
  void SettleOwner(std::unique_ptr<OwnerCall> call, absl::StatusOr<OwnerResult> result,
                   std::vector<std::unique_ptr<OwnerCall>>& again);
  void RunBegins();
  void SettleBegins(CallGroup<BeginCall> group, absl::StatusOr<BeginResult> result,
                    const ReadTerms& terms, std::vector<std::unique_ptr<BeginCall>>& again);
  void SettleUndecided(CallGroup<BeginCall> group, absl::Status fault,
                       std::vector<std::unique_ptr<BeginCall>>& again);
  void SettleUnavailable(CallGroup<BeginCall> group, absl::Status fault,
                         std::vector<std::unique_ptr<BeginCall>>& again);
  void AnswerOrPark(std::unique_ptr<BeginCall> call, BeginResult result, absl::Duration now);
  void RunLookups();
  // What other replicas did to the records of this lane's waits.
  void ProbeWaiting();

  const Policy policy_;
  const BatchLimits limits_;
  const std::unique_ptr<Store> store_;
  const Deps deps_;

  Incoming incoming_;  // emptied in every step; keeps its capacity
  std::deque<std::unique_ptr<OwnerCall>> owners_;
  std::deque<std::unique_ptr<BeginCall>> begins_;
  std::deque<std::unique_ptr<LookupCall>> lookups_;
  Waiters waiters_;
  RefusedAnswers refused_;
  BatchMeter meter_;
  // By CallKind: of how many keys the first calls of that kind were kNotRead in the batch before.
  std::array<size_t, kCallKinds> not_read_{};
  // Keys with calls in the slow lane: further Completes, Fails and Renews follow them.
  absl::flat_hash_set<RecordKey> slow_keys_;
  // Those of them with Begins there: further Begins follow. The others' do not: beside a locked
  // Complete most Begins need only a plain read, which no lock stops.
  absl::flat_hash_set<RecordKey> slow_begin_keys_;
};

}  // namespace idempotency
