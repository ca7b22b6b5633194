#include "server/rpc/worker_pool.h"

#include <algorithm>
#include <map>
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

void WorkerPool::Count(Metric metric, int64_t delta) {
  if (metrics_ != nullptr) metrics_->Add(metric, delta);
}

bool WorkerPool::HasRoom(size_t bytes) const {
  return queue_.size() < max_queued_ && queued_bytes_ + bytes <= max_queued_bytes_;
}

int64_t WorkerPool::TurnOf(absl::string_view merchant) const {
  int64_t latest = turn_;
  for (const Queued& queued : queue_) {
    if (queued.merchant == merchant) latest = std::max(latest, queued.turn);
  }
  return latest + 1;
}

WorkerPool::Queue::iterator WorkerPool::FindVictim(absl::string_view merchant) {
  std::map<absl::string_view, size_t> counts;
  size_t most = 0;
  for (const Queued& queued : queue_) most = std::max(most, ++counts[queued.merchant]);
  const auto own = counts.find(merchant);
  if (most < (own == counts.end() ? 0 : own->second) + 2) return queue_.end();
  auto newest = queue_.end();
  while (newest != queue_.begin()) {
    if (counts[(--newest)->merchant] == most) return newest;
  }
  return queue_.end();
}

WorkerPool::Queued WorkerPool::TakeOut(Queue::iterator queued) {
  Queued taken = std::move(*queued);
  queue_.erase(queued);
  queued_bytes_ -= taken.bytes;
  Count(Metric::kQueuedPayloads, -1);
  Count(Metric::kQueuedPayloadBytes, -static_cast<int64_t>(taken.bytes));
  return taken;
}

void WorkerPool::PutIn(Queued queued) {
  queued_bytes_ += queued.bytes;
  Count(Metric::kQueuedPayloads, 1);
  Count(Metric::kQueuedPayloadBytes, static_cast<int64_t>(queued.bytes));
  queue_.push_back(std::move(queued));
}

bool WorkerPool::TryRun(Task& task, size_t bytes, Owner owner) {
  std::vector<Queued> shed;
  bool has_room = true;
  {
    MutexLock lock(&mu_);
    while (has_room && !HasRoom(bytes)) {
      const auto victim = FindVictim(owner.merchant);
      has_room = victim != queue_.end();
      if (has_room) shed.push_back(TakeOut(victim));
    }
    if (has_room) {
      PutIn({std::move(task), bytes, std::string(owner.merchant), std::move(owner.refuse),
             TurnOf(owner.merchant)});
    } else {
      // What was shed in vain has its place again; the one shed last is its merchant's oldest.
      for (; !shed.empty(); shed.pop_back()) PutIn(std::move(shed.back()));
      Count(Metric::kPayloadsRefused, 1);
    }
  }
  if (!has_room) return false;
  changed_.NotifyOne();
  for (Queued& queued : shed) {
    Count(Metric::kPayloadsRefused, 1);
    std::move(queued.refuse)();
  }
  return true;
}

void WorkerPool::Work() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      const auto next =
          std::min_element(queue_.begin(), queue_.end(),
                           [](const Queued& a, const Queued& b) { return a.turn < b.turn; });
      turn_ = next->turn;
      task = TakeOut(next).task;
    }
    std::move(task)();
  }
}

}  // namespace idempotency
