#include "server/engine/admission.h"

#include <algorithm>

#include "server/base/check.h"

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

Admission::Admission(const AdmissionLimits& limits, Metrics* metrics)
    : limits_{.calls = limits.calls,
              .waits = std::min(limits.waits, limits.calls / 2),
              .waits_of_merchant = limits.waits_of_merchant},
      metrics_(metrics) {}

bool Admission::EnterCall(Room room) {
  if (!AddBelow(calls_, LimitOf(room, limits_.calls))) {
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

bool Admission::EnterWait(const std::string& merchant) {
  MutexLock lock(&mu_);
  if (waits_ >= limits_.waits || limits_.waits_of_merchant == 0) return false;
  size_t& of_merchant = waits_by_merchant_[merchant];
  if (of_merchant >= limits_.waits_of_merchant) return false;
  ++of_merchant;
  ++waits_;
  metrics_->Add(Metric::kWaiting);
  return true;
}

void Admission::LeaveWait(const std::string& merchant) {
  MutexLock lock(&mu_);
  const auto found = waits_by_merchant_.find(merchant);
  IDEM_CHECK(found != waits_by_merchant_.end()) << "a wait that was not entered";
  if (--found->second == 0) waits_by_merchant_.erase(found);
  --waits_;
  metrics_->Add(Metric::kWaiting, -1);
}

}  // namespace idempotency
