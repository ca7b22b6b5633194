// A few threads for what is too slow for gRPC's own: canonicalising large payloads.
#pragma once

#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/base/mutex.h"

namespace idempotency {

// Thread-safe. Owns its threads.
class WorkerPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // REQUIRES: threads > 0. At most `max_queued` tasks wait for a thread.
  WorkerPool(int threads, size_t max_queued);
  // Runs what is queued, then ends the threads.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues `task` and returns true, or returns false when the queue is full: then `task` is left as
  // it was. Never waits.
  bool TryRun(Task& task);

 private:
  void Work();

  const size_t max_queued_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency
