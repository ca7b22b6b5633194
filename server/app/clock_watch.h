// Keeps the clock guard's row fresh, and notes there what this replica sees of the database's
// clock.
//
// Every replica runs one, four times a second. It reads the clock and the row first, and writes
// only what is due: a jump, or a reading that nobody wrote for half of the interval. So the row has
// few versions however many replicas there are. What the replica's own clock says can only add a
// jump.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/app/clock_drift.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/record/clock_guard.h"
#include "server/store/store.h"

namespace idempotency {

class ClockWatch {
 public:
  // `clock`, `metrics` and `log` must outlive the watch.
  ClockWatch(std::unique_ptr<Store> store, const Policy& policy, Clock* clock, Metrics* metrics,
             Log* log);
  // Ends the thread.
  ~ClockWatch();
  ClockWatch(const ClockWatch&) = delete;
  ClockWatch& operator=(const ClockWatch&) = delete;

  // Repeats Step() from now on. REQUIRES: not started before.
  void Start();

  // One look. A jump is logged and counted by the replica that writes it, failures are counted, and
  // logged when they begin and end. For one thread at a time; not once started.
  void Step();

 private:
  void Run();
  absl::Status Look();
  void Note(const ClockState& before, const ClockState& after, absl::Duration drift);
  void Show(const ClockState& state);

  const Policy policy_;
  const ClockLimits limits_;
  Clock* const clock_;
  Metrics* const metrics_;
  Log* const log_;

  // Owned by the thread once it runs.
  const std::unique_ptr<Store> store_;
  ClockDrift drift_;
  std::optional<DatabaseIdentity> identity_;
  bool is_failing_ = false;

  Mutex mu_;
  CondVar ending_changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace idempotency
