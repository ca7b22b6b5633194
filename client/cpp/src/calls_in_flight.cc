#include "client/cpp/src/calls_in_flight.h"

namespace idempotency::client {

void CallsInFlight::Add() {
  const std::lock_guard lock(mu_);
  ++count_;
}

void CallsInFlight::Remove() {
  const std::lock_guard lock(mu_);
  if (--count_ == 0) changed_.notify_all();
}

bool CallsInFlight::AwaitNone(std::chrono::milliseconds span) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, span, [this] { return count_ == 0; });
}

}  // namespace idempotency::client
