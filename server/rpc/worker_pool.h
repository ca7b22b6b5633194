// A few threads for what is too slow for gRPC's own: canonicalising large payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

// Thread-safe. Owns its threads.
class WorkerPool {
 public:
  using Task = absl::AnyInvocable<void() &&>;

  // REQUIRES: threads > 0. At most `max_queued` tasks wait for a thread, which together hold at
  // most `max_queued_bytes`. `metrics` counts them; it may be null, else must outlive the pool.
  WorkerPool(int threads, size_t max_queued, size_t max_queued_bytes, Metrics* metrics = nullptr);
  // Runs what is queued, then ends the threads.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues `task`, which holds about `bytes` of memory, and returns true, or returns false when a
  // bound is reached: then `task` is left as it was. Never waits.
  bool TryRun(Task& task, size_t bytes);

 private:
  struct Queued {
    Task task;
    size_t bytes;
  };
  void Work();
  void Count(int64_t tasks, int64_t bytes);

  const size_t max_queued_;
  const size_t max_queued_bytes_;
  Metrics* const metrics_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency
