// A few threads for what is too slow for gRPC's own: canonicalising large payloads.
//
// Its queue is fair between merchants as a lane's is: they take turns, and when it is full, a task
// of a merchant that has fewer in it takes the place of the newest one of the merchant with most.
// It is short (tens of tasks), so it is searched from end to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

// Thread-safe. Owns its threads.
class WorkerPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;
  // Whose a task is, and what is run in its stead, by the thread that pushed it out, when it has to
  // make room for another merchant's.
  struct Owner {
    absl::string_view merchant;
    Task refuse;
  };

  // REQUIRES: threads > 0. At most `max_queued` tasks wait for a thread, which together hold at
  // most `max_queued_bytes`. `metrics` may be null and must outlive this.
  WorkerPool(int threads, size_t max_queued, size_t max_queued_bytes, Metrics* metrics = nullptr);
  // Runs what is queued, then ends the threads.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues `task`, which holds about `bytes` of memory, and returns true, or returns false when a
  // bound is reached: then `task` is left as it was. Never waits.
  bool TryRun(Task& task, size_t bytes) {
    return TryRun(task, bytes, {.merchant = "", .refuse = [] {}});
  }
  bool TryRun(Task& task, size_t bytes, Owner owner);

 private:
  struct Queued {
    Task task;
    size_t bytes;
    std::string merchant;
    Task refuse;
    // The lowest is next, the oldest of those: a merchant's tasks are one apart.
    int64_t turn;
  };
  using Queue = std::deque<Queued>;

  void Work();
  bool HasRoom(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The newest task of the merchant that has most, if it has two more than `merchant`.
  Queue::iterator FindVictim(absl::string_view merchant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For a merchant's next task.
  int64_t TurnOf(absl::string_view merchant) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Queued TakeOut(Queue::iterator queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PutIn(Queued queued) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Count(Metric metric, int64_t delta);

  const size_t max_queued_;
  const size_t max_queued_bytes_;
  Metrics* const metrics_;
  Mutex mu_;
  CondVar changed_;
  Queue queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t turn_ ABSL_GUARDED_BY(mu_) = 0;  // of the task that was taken last
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency
