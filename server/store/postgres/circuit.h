// The circuit breaker of a replica that waits for a standby (Durability::kReplicated).
//
// A commit that waits for a standby cannot be ended from outside without lying: its client closes
// the socket, and the server process stays behind until the standby is back. So after one commit
// was not answered in time, nobody sends another one: each connection leaves at most one such
// process behind, and callers are refused at once. The health check's own commit (probe.h) finds
// out when the standby answers again, and closes the circuit. Wrong settings, with which no commit
// waits, open it as well.
//
// Thread-safe. Shared by all stores of a replica.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

class Circuit {
 public:
  // `metrics` must outlive it.
  explicit Circuit(Metrics* metrics) : metrics_(metrics) {}
  Circuit(const Circuit&) = delete;
  Circuit& operator=(const Circuit&) = delete;

  bool IsOpen() const { return is_open_.load(std::memory_order_acquire); }

  // `reason` is for logs.
  void Open(absl::string_view reason);
  // Why it is open; empty while it is closed.
  std::string Reason() const;

  // How often Open was called.
  uint64_t Openings() const;
  // Closes it unless it was opened again since Openings() was asked: a commit that was sent before
  // says nothing about what made it open.
  void CloseUnlessOpenedSince(uint64_t openings);

 private:
  Metrics* const metrics_;
  std::atomic<bool> is_open_{false};
  mutable Mutex mu_;
  uint64_t openings_ ABSL_GUARDED_BY(mu_) = 0;
  std::string reason_ ABSL_GUARDED_BY(mu_);
};

}  // namespace idempotency
