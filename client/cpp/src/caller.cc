#include "client/cpp/src/caller.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "client/cpp/src/call_failure.h"

namespace idempotency::client {

Caller::Caller(const RunOptions& options) : cancel_(options.cancel) {
  const auto now = BootClock::now();
  if (!options.deadline.has_value()) {
    deadline_ = After(now, std::chrono::milliseconds::max());
    return;
  }
  const auto steady_now = std::chrono::steady_clock::now();
  // Compared first: a deadline at the clock's ends must not overflow.
  deadline_ = *options.deadline <= steady_now
                  ? now
                  : After(now, std::chrono::nanoseconds(*options.deadline - steady_now));
}

StopReason Caller::WhyGone() const {
  if (cancel_.stop_requested()) return StopReason::kCancelled;
  return BootClock::now() >= deadline_ ? StopReason::kDeadline : StopReason::kNone;
}

void Caller::SleepUntil(BootClock::time_point then) const {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  const auto span = std::min(then, deadline_) - BootClock::now();
  never.wait_for(lock, cancel_, span, [] { return false; });
}

Error GoneError(StopReason why) {
  return why == StopReason::kCancelled
             ? MakeError(ErrorKind::kCancelled, "the caller cancelled")
             : MakeError(ErrorKind::kDeadlineExceeded, "the caller's deadline passed");
}

}  // namespace idempotency::client
