#include "client/cpp/src/timers.h"

#include <algorithm>

namespace idempotency::client {
namespace {

// A condition variable does not count suspended time, so after a suspension it would wake too late
// by as much: no wait is longer than this.
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::seconds(1);

}  // namespace

Timers::Timers() : thread_([this] { Loop(); }) {}

Timers::~Timers() { Stop(); }

Timers::Id Timers::At(BootClock::time_point when, std::function<void()> task) {
  const std::lock_guard lock(mu_);
  const Id id(when, ++next_number_);
  if (is_stopped_) return id;
  tasks_.emplace(id, std::move(task));
  if (tasks_.begin()->first == id) changed_.notify_one();
  return id;
}

void Timers::Cancel(const Id& id) {
  std::function<void()> dropped;  // destroyed without the lock: it may own much
  const std::lock_guard lock(mu_);
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  dropped = std::move(found->second);
  tasks_.erase(found);
}

void Timers::Stop() {
  std::map<Id, std::function<void()>> dropped;
  {
    const std::lock_guard lock(mu_);
    is_stopped_ = true;
    dropped.swap(tasks_);
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Timers::Loop() {
  std::unique_lock lock(mu_);
  while (!is_stopped_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = tasks_.begin();
    const auto now = BootClock::now();
    if (first->first.first > now) {
      changed_.wait_for(lock, std::min(kLongestSleep, first->first.first - now));
      continue;
    }
    std::function<void()> task = std::move(first->second);
    tasks_.erase(first);
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace idempotency::client
