// The engine as it is composed: admission, lanes, the slow lane and the sweeper.
//
// MakeEngine (engine.h) makes one and starts it. Not started, it has no threads and moves only when
// Step is called: so tests decide what happens when.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/engine/admission.h"
#include "server/engine/answers.h"
#include "server/engine/engine.h"
#include "server/engine/lane.h"
#include "server/engine/queue.h"
#include "server/engine/replay_cache.h"
#include "server/engine/slow_lane.h"
#include "server/engine/sweeper.h"
#include "server/store/store.h"

namespace idempotency {

class BatchingEngine final : public Engine {
 public:
  // `clock`, `metrics` and `events` must outlive this. Makes a Store for each lane, the slow lane
  // and the sweeper.
  BatchingEngine(const EngineOptions& options, const StoreFactory& stores, Clock* clock,
                 Metrics* metrics, EngineEvents* events);
  ~BatchingEngine() override;

  // REQUIRES: called at most once, before any other function.
  void Start();

  // Thread-safe, also from callbacks.
  void Begin(BeginItem item, CallTerms terms, BeginDone done) override;
  void Owner(OwnerItem item, CallTerms terms, OwnerDone done) override;
  void Lookup(LookupItem item, CallTerms terms, LookupDone done) override;
  void ObserveDatabase(const DatabaseIdentity& identity) override {
    cache_.ObserveDatabase(identity);
  }
  // Thread-safe, but not from a callback: it waits for the callbacks to return. Without threads it
  // steps until all is answered, so the clock must not be what that waits for.
  void Drain() override;

  // One step of every lane and of the slow lane, as their threads would do it.
  // REQUIRES: not started; one thread at a time.
  void Step();
  // One step of a part, for tests that decide the order of steps, and let several parts be within
  // one. REQUIRES: not started; each part is stepped by one thread at a time.
  void StepLane(size_t lane);
  void StepSlowLane();
  void StepSweeper();

 private:
  template <typename Call>
  void Enter(std::unique_ptr<Call> call, Room room);
  // Answers what had to make room.
  void Overload(ShedCalls shed);
  void DrainOnce();

  Clock* const clock_;
  Metrics* const metrics_;

  Admission admission_;
  Answers answers_;
  ReplayCache cache_;
  LaneQueues queues_;
  SlowLane slow_lane_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Sweeper sweeper_;

  std::atomic<bool> draining_{false};
  std::once_flag drained_;
  // Set by Start, joined by Drain.
  std::vector<std::thread> lane_threads_;
  std::thread slow_lane_thread_;
  std::thread sweeper_thread_;
};

}  // namespace idempotency
