// The state machine: what a record answers to a call. Pure functions, the only place that judges.
//
// The store calls them on rows it has read, and again on rows it has locked; the engine calls them
// to answer further calls of one key in a batch from the first one's row. Each table in the
// specification is one function here, row by row, first match wins. Every Reading is of the
// database's clock.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "server/record/limit.h"
#include "server/record/reading.h"
#include "server/record/record.h"

namespace idempotency {

// The settings that decisions depend on.
struct Policy {
  // Added to leases and retention before they count as over: the clocks' largest disagreement.
  absl::Duration skew_margin = kDefaultSkewMargin;
  // A record answers at least this long after it was finished. At least 10 min in production.
  absl::Duration replay_window = absl::Hours(1);
  // From the record's creation; after it nobody takes an abandoned record over.
  absl::Duration takeover_window = absl::Hours(12);
  // The shortest lease that is granted: with less left of the takeover window nothing is started.
  absl::Duration shortest_lease = absl::Seconds(1);
};

// Completed or failed for good: replayed.
bool IsFinal(RecordState state);
// The instant after which the lease is over: its end or, if the clock jumped meanwhile, its whole
// duration after the jump, whichever is later; and the margin.
absl::Time LeaseOverAfter(const Record& record, const Reading& reading, const Policy& policy);
// How long nothing expires after the clock jumped: 10 minutes, for which no message lives, and not
// longer than the replay window, which only tests set shorter.
absl::Duration ExpiryPause(const Policy& policy);
// Whether the clock jumped so recently that every record counts as live.
bool IsExpiryPaused(const Reading& reading, const Policy& policy);
// The one meaning of "over", "abandoned" and "expired"; at equality a lease is not over and a
// record not expired.
bool IsLeaseOver(const Record& record, const Reading& reading, const Policy& policy);
bool IsAbandoned(const Record& record, const Reading& reading, const Policy& policy);
bool IsSettled(const Record& record);
bool IsExpired(const Record& record, const Reading& reading, const Policy& policy);
// The later of creation + ttl and finish + replay window; InfiniteFuture for a record that is not
// settled.
absl::Time ExpiresAt(const Record& record, const Policy& policy);
// Never negative, never longer than the lease's duration; zero when no attempt is at work.
absl::Duration LeaseRemaining(const Record& record, absl::Time now);
// Until the lease is over, within [kMinRetryAfter, kMaxRetryAfter].
absl::Duration RetryAfter(const Record& record, const Reading& reading, const Policy& policy);

enum class BeginVerdict {
  kStarted,
  kReplay,
  kInProgress,
  kKeyReused,
  kLeaseLost,
  kNeedsResolution
};

struct BeginDecision {
  BeginVerdict verdict = BeginVerdict::kInProgress;
  bool repeated = false;  // with kStarted: this attempt had been started before
  std::optional<Record>
      next;  // the row to write before the verdict may be told; absent: nothing to write
};

// `record` is null when the key has none. The clock must have been read after the row was read or,
// if `next` is going to be written, after it was locked.
BeginDecision DecideBegin(const Record* record, const BeginItem& item, const Reading& reading,
                          const Policy& policy);

enum class OwnerVerdict {
  kRecorded,
  kAlreadyRecorded,
  kRenewed,
  kAlreadyFinished,
  kOutcomeConflict,
  kLeaseLost,
  kRecordNotFound,
  kNeedsResolution,
};

struct OwnerDecision {
  OwnerVerdict verdict = OwnerVerdict::kRecordNotFound;
  std::optional<Record> next;  // as in BeginDecision
};

OwnerDecision DecideOwner(const Record* record, const OwnerItem& item, const Reading& reading,
                          const Policy& policy);

// The record with the refused answer of `item` kept as evidence, or nothing when that is not to be
// kept: the attempt is not one of the record's, or another was kept less than
// kRefusedOutcomeInterval ago. REQUIRES: item.answer is set and was refused by DecideOwner.
std::optional<Record> KeepRefused(const Record& record, const OwnerItem& item, absl::Time now);

}  // namespace idempotency
