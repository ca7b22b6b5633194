// The steps of sweep and purge, the clock guard, and the check of a database's fitness: what runs
// outside of any batch.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/postgres/database_clock.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace idempotency {

// As Store's functions of these names. A step that failed may be repeated: what it did stays done.
// What was marked, or deleted as unsettled, is returned also when the commit's answer was lost.
absl::StatusOr<int64_t> CountBlocks(Session& session);
absl::StatusOr<std::vector<SweptRecord>> SweepStep(Session& session, DatabaseClock& clock,
                                                   BlockRange range, absl::Duration grace);
absl::StatusOr<Survey> SurveyStep(Session& session, DatabaseClock& clock, BlockRange range);
absl::StatusOr<int64_t> PurgeStep(Session& session, DatabaseClock& clock, BlockRange range);
absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(Session& session, DatabaseClock& clock,
                                                            BlockRange range,
                                                            absl::Duration max_age);
absl::Status CheckDatabase(Session& session);
absl::StatusOr<ClockState> ReadClock(Session& session, DatabaseClock& clock);
absl::StatusOr<ClockState> RefreshClock(Session& session, DatabaseClock& clock, bool saw_drift);

}  // namespace idempotency
