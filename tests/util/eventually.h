// The one way in which tests wait for something that happens elsewhere.
#pragma once

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace idempotency {

// Asks `condition` again and again until it holds, or `limit` has passed. Returns whether it held.
// The limit is far above what the condition needs: it ends tests that would hang, and judges none.
inline bool Eventually(const std::function<bool()>& condition,
                       absl::Duration limit = absl::Seconds(60)) {
  const absl::Time end = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

}  // namespace idempotency
