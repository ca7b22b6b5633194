#include "client/cpp/src/backoff.h"

#include <algorithm>
#include <random>

namespace idempotency::client {
namespace {

constexpr std::chrono::milliseconds kLongestAsked = std::chrono::minutes(1);

std::chrono::milliseconds Between(std::chrono::milliseconds low, std::chrono::milliseconds high) {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::chrono::milliseconds(
      std::uniform_int_distribution<int64_t>(low.count(), high.count())(random));
}

}  // namespace

std::chrono::milliseconds Backoff::Next(std::optional<std::chrono::milliseconds> asked) {
  if (asked.has_value() && asked->count() >= 0) {
    const auto wait = std::min(*asked, kLongestAsked);
    return Between(wait, wait + wait / 5);
  }
  const auto wait = next_;
  next_ = std::min(longest_, 2 * next_);
  return Between(wait / 2, wait);
}

}  // namespace idempotency::client
