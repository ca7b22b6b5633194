// How long to wait before a call is repeated.
#pragma once

#include <chrono>
#include <optional>

namespace idempotency::client {

// Not thread-safe.
class Backoff {
 public:
  // Doubles from 50 ms up to `longest`, which is at least that; each wait is drawn from its upper
  // half. Guessed: fast enough for a replica that restarts, slow enough for a thousand callers.
  explicit Backoff(std::chrono::milliseconds longest = std::chrono::seconds(5))
      : longest_(longest) {}

  // The next wait. `asked`: what the server asked for, which counts instead (a minute at most),
  // with up to a fifth on top, so that those it told the same do not come back together.
  std::chrono::milliseconds Next(std::optional<std::chrono::milliseconds> asked);
  void Reset() { next_ = kFirst; }

 private:
  static constexpr std::chrono::milliseconds kFirst{50};
  const std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace idempotency::client
