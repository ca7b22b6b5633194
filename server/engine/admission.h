// How many calls, and how many waiting ones, may be inside the engine at once.
//
// Thread-safe. A call's coming and going takes no lock; a wait's takes one, for memory operations
// only.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

// Whether a call may use the quarter of every bound that is kept for Complete, Fail and Renew.
enum class Room { kShared, kReserved };

// What of a bound of `max` a call may fill: with kShared a quarter always stays free.
inline constexpr size_t LimitOf(Room room, size_t max) {
  return room == Room::kReserved ? max : max - max / 4;
}

struct AdmissionLimits {
  size_t calls = 0;
  // At most half of the calls, whatever stands here; and those of one merchant.
  size_t waits = 0;
  size_t waits_of_merchant = 0;
};

class Admission {
 public:
  // `metrics` must outlive this.
  Admission(const AdmissionLimits& limits, Metrics* metrics);

  // False: the bound is reached and nothing was taken. Each true is given back by one Leave.
  bool EnterCall(Room room);
  void LeaveCall();
  bool EnterWait(const std::string& merchant);
  void LeaveWait(const std::string& merchant);

 private:
  const AdmissionLimits limits_;
  Metrics* const metrics_;
  std::atomic<size_t> calls_{0};

  Mutex mu_;
  size_t waits_ ABSL_GUARDED_BY(mu_) = 0;
  // Of merchants that have any: so there are no more of them than waits.
  absl::flat_hash_map<std::string, size_t> waits_by_merchant_ ABSL_GUARDED_BY(mu_);
};

}  // namespace idempotency
