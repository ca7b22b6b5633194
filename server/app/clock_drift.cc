#include "server/app/clock_drift.h"

#include <algorithm>

namespace idempotency {
namespace {

constexpr absl::Duration kSpan = absl::Minutes(1);
// The longest lease that settings allow.
constexpr absl::Duration kWindow = absl::Hours(1);

}  // namespace

absl::Duration ClockDrift::Saw(absl::Time reading, absl::Duration asked_at,
                               absl::Duration told_at) {
  const absl::Duration since_epoch = reading - absl::UnixEpoch();
  const absl::Duration at_least = since_epoch - told_at;
  const absl::Duration at_most = since_epoch - asked_at;
  while (!spans_.empty() && spans_.front().starts_at + kSpan + kWindow < asked_at) {
    spans_.pop_front();
  }
  absl::Duration drift = -absl::InfiniteDuration();
  for (const Span& span : spans_) {
    drift = std::max({drift, at_least - span.at_most, span.at_least - at_most});
  }
  if (spans_.empty() || asked_at >= spans_.back().starts_at + kSpan) {
    spans_.push_back({asked_at, at_least, at_most});
  } else {
    spans_.back().at_least = std::max(spans_.back().at_least, at_least);
    spans_.back().at_most = std::min(spans_.back().at_most, at_most);
  }
  return drift;
}

}  // namespace idempotency
