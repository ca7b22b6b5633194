#include "server/rpc/worker_pool.h"

#include <utility>

#include "server/base/check.h"

namespace idempotency {

WorkerPool::WorkerPool(int threads, size_t max_queued, size_t max_queued_bytes, Metrics* metrics)
    : max_queued_(max_queued), max_queued_bytes_(max_queued_bytes), metrics_(metrics) {
  IDEM_CHECK(threads > 0) << "nobody would run the tasks";
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::TryRun(Task& task, size_t bytes) {
  {
    MutexLock lock(&mu_);
    if (queue_.size() >= max_queued_ || queued_bytes_ + bytes > max_queued_bytes_) return false;
    queued_bytes_ += bytes;
    queue_.push_back({std::move(task), bytes});
    Count(1, static_cast<int64_t>(bytes));
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Count(int64_t tasks, int64_t bytes) {
  if (metrics_ == nullptr) return;
  metrics_->Add(Metric::kWorkerQueuedItems, tasks);
  metrics_->Add(Metric::kWorkerQueuedBytes, bytes);
}

void WorkerPool::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      task = std::move(queue_.front().task);
      queued_bytes_ -= queue_.front().bytes;
      Count(-1, -static_cast<int64_t>(queue_.front().bytes));
      queue_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace idempotency
