#include "server/store/postgres/circuit.h"

namespace idempotency {

void Circuit::Open(absl::string_view reason) {
  MutexLock lock(&mu_);
  ++openings_;
  reason_ = std::string(reason);
  if (is_open_.exchange(true, std::memory_order_acq_rel)) return;
  metrics_->Add(Metric::kCircuitOpen);
  metrics_->Add(Metric::kCircuitOpened);
}

std::string Circuit::Reason() const {
  MutexLock lock(&mu_);
  return reason_;
}

uint64_t Circuit::Openings() const {
  MutexLock lock(&mu_);
  return openings_;
}

void Circuit::CloseUnlessOpenedSince(uint64_t openings) {
  MutexLock lock(&mu_);
  if (openings_ != openings) return;
  reason_.clear();
  if (is_open_.exchange(false, std::memory_order_acq_rel)) metrics_->Add(Metric::kCircuitOpen, -1);
}

}  // namespace idempotency
