// How many calls, and how many waiting ones, may be inside the engine at once.
//
// Thread-safe and lock-free.
#pragma once

#include <atomic>
#include <cstddef>

#include "server/base/metrics.h"

namespace idempotency {

// Whether a call may use the quarter of every bound that is kept for Complete, Fail and Renew.
enum class Room { kShared, kReserved };

// What of a bound of `max` a call may fill: with kShared a quarter always stays free.
inline constexpr size_t LimitOf(Room room, size_t max) {
  return room == Room::kReserved ? max : max - max / 4;
}

class Admission {
 public:
  // At most `waits_max`, and at most half of `calls_max`, may wait. `metrics` must outlive this.
  Admission(size_t calls_max, size_t waits_max, Metrics* metrics);

  // False: the bound is reached and nothing was taken. Each true is given back by one Leave.
  bool EnterCall(Room room);
  void LeaveCall();
  bool EnterWait();
  void LeaveWait();

 private:
  const size_t calls_max_;
  const size_t waits_max_;
  Metrics* const metrics_;
  std::atomic<size_t> calls_{0};
  std::atomic<size_t> waits_{0};
};

}  // namespace idempotency
