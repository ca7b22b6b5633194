#include "server/engine/admission.h"

#include <algorithm>

namespace idempotency {
namespace {

// Not fetch_add and take back: a flood of refused Begins would eat into the reserved room
// meanwhile.
bool AddBelow(std::atomic<size_t>& count, size_t limit) {
  size_t seen = count.load(std::memory_order_relaxed);
  do {
    if (seen >= limit) return false;
  } while (!count.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed));
  return true;
}

}  // namespace

Admission::Admission(size_t calls_max, size_t waits_max, Metrics* metrics)
    : calls_max_(calls_max), waits_max_(std::min(waits_max, calls_max / 2)), metrics_(metrics) {}

bool Admission::EnterCall(Room room) {
  if (!AddBelow(calls_, LimitOf(room, calls_max_))) {
    metrics_->Add(Metric::kCallsRefused);
    return false;
  }
  metrics_->Add(Metric::kCallsInFlight);
  return true;
}

void Admission::LeaveCall() {
  calls_.fetch_sub(1, std::memory_order_relaxed);
  metrics_->Add(Metric::kCallsInFlight, -1);
}

bool Admission::EnterWait() {
  if (!AddBelow(waits_, waits_max_)) return false;
  metrics_->Add(Metric::kWaiting);
  return true;
}

void Admission::LeaveWait() {
  waits_.fetch_sub(1, std::memory_order_relaxed);
  metrics_->Add(Metric::kWaiting, -1);
}

}  // namespace idempotency
