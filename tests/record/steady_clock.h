// The judge's functions by a clock that never jumped: what all tests but the clock guard's are
// about.
#pragma once

#include "absl/time/time.h"
#include "server/record/decide.h"

namespace idempotency {

inline Reading Steady(absl::Time now) { return {.now = now}; }

inline bool IsExpired(const Record& record, absl::Time now, const Policy& policy) {
  return IsExpired(record, Steady(now), policy);
}
inline absl::Duration RetryAfter(const Record& record, absl::Time now, const Policy& policy) {
  return RetryAfter(record, Steady(now), policy);
}
inline BeginDecision DecideBegin(const Record* record, const BeginItem& item, absl::Time now,
                                 const Policy& policy) {
  return DecideBegin(record, item, Steady(now), policy);
}
inline OwnerDecision DecideOwner(const Record* record, const OwnerItem& item, absl::Time now,
                                 const Policy& policy) {
  return DecideOwner(record, item, Steady(now), policy);
}

}  // namespace idempotency
