#include "server/rpc/worker_pool.h"

#include <utility>

#include "server/base/check.h"

namespace idempotency {

WorkerPool::WorkerPool(int threads, size_t max_queued) : max_queued_(max_queued) {
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

bool WorkerPool::TryRun(Task& task) {
  {
    MutexLock lock(&mu_);
    if (queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(task)();
  }
}

}  // namespace idempotency
