// The specification's two state machine tables, written a second time: the oracle.
//
// Made from the specification's text, row by row, without a look at server/record/decide.cc, and
// it shares no function with it that judges. Where the two differ, one of them has misread the
// specification. Simple before fast: every call copies the record.
//
// Pure functions, for any thread.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "server/record/clock_guard.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

struct ModelBegin {
  BeginVerdict verdict;
  bool repeated = false;
  std::optional<Record> row = std::nullopt;  // to be stored; absent: nothing changes
};

struct ModelOwner {
  OwnerVerdict verdict;
  std::optional<Record> row = std::nullopt;
};

// A reading of the clock against the guard's row: what is known of the clock by then.
Reading ModelReading(const ClockGuard& guard, absl::Time now, bool is_same_history,
                     const Policy& policy);
// The row after a replica refreshed it by that reading, and why it then says that the clock jumped
// just now; absent: it does not, and only its reading moved.
struct ModelRefreshed {
  ClockGuard guard;
  std::optional<ClockJump> jump;
};
ModelRefreshed ModelRefresh(const ClockGuard& guard, absl::Time now, bool is_same_history,
                            bool saw_drift, const Policy& policy);

// `record` is null when the key has none.
ModelBegin ModelDecideBegin(const Record* record, const BeginItem& item, const Reading& reading,
                            const Policy& policy);
ModelOwner ModelDecideOwner(const Record* record, const OwnerItem& item, const Reading& reading,
                            const Policy& policy);

// The record with the refused answer kept as evidence; absent: it is not to be kept.
std::optional<Record> ModelKeepRefused(const Record* record, const OwnerItem& item, absl::Time now);

// What maintenance may do to a record.
bool ModelMaySweep(const Record& record, const Reading& reading, absl::Duration grace,
                   const Policy& policy);
bool ModelMayPurge(const Record& record, const Reading& reading, const Policy& policy);
bool ModelMayPurgeUnsettled(const Record& record, const Reading& reading, absl::Duration max_age,
                            const Policy& policy);

}  // namespace idempotency
