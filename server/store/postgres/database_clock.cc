#include "server/store/postgres/database_clock.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/clock.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/rows.h"

namespace idempotency {
namespace {

// Guessed: long enough for a database that stalls, and far below the ten minutes of ExpiryPause.
constexpr absl::Duration kMaxViewAge = absl::Seconds(5);

absl::Duration MaxAge(const Policy& policy) {
  return std::min(kMaxViewAge, ExpiryPause(policy) / 2);
}

// The columns of the guard's row.
absl::Status ReadGuard(RowReader& row, const std::optional<DatabaseIdentity>& connected,
                       ClockState& state) {
  DatabaseIdentity written;
  written.system_identifier = static_cast<uint64_t>(row.Int8());
  written.timeline = static_cast<uint32_t>(row.Int8());
  state.guard.reading = row.Timestamp();
  state.guard.last_jump_at = row.Timestamp();
  state.last_jump = static_cast<ClockJump>(row.Int2());
  state.guard.token_offset_us = row.Int8();
  state.is_same_history = connected == written;
  return row.status();
}

}  // namespace

void ClockView::Saw(const ClockGuard& guard, absl::Duration asked_at) {
  MutexLock lock(&mu_);
  if (guard_.has_value() && asked_at < asked_at_) return;
  guard_ = guard;
  asked_at_ = asked_at;
}

std::optional<ClockGuard> ClockView::Find(absl::Duration now, absl::Duration max_age) const {
  MutexLock lock(&mu_);
  if (!guard_.has_value() || now - asked_at_ > max_age) return std::nullopt;
  return guard_;
}

DatabaseClock::DatabaseClock(const Policy& policy, std::shared_ptr<ClockView> view,
                             Session* session)
    : policy_(policy), view_(std::move(view)), session_(session) {}

absl::Duration DatabaseClock::AskedAt() { return SystemClock()->BootTime(); }

absl::StatusOr<ClockState> DatabaseClock::Understand(const PGresult* result,
                                                     absl::Duration asked_at, bool refreshed) {
  RETURN_IF_ERROR(refreshed
                      ? CheckShape(result, {PgType::kInt8, PgType::kInt8, PgType::kTimestamptz,
                                            PgType::kTimestamptz, PgType::kInt2, PgType::kInt8})
                      : CheckShape(result, {PgType::kTimestamptz, PgType::kInt8, PgType::kInt8,
                                            PgType::kTimestamptz, PgType::kTimestamptz,
                                            PgType::kInt2, PgType::kInt8}));
  if (PQntuples(result) != 1) return absl::InternalError("the clock: not one row");
  RowReader row(result, 0);
  ClockState state;
  if (!refreshed) state.now = row.Timestamp();
  // Somebody deleted the guard's row; the next refresh makes another.
  if (!row.IsNull()) RETURN_IF_ERROR(ReadGuard(row, session_->Identity(), state));
  RETURN_IF_ERROR(row.status());
  if (refreshed) state.now = state.guard.reading;
  view_->Saw(state.guard, asked_at);
  return state;
}

absl::StatusOr<Reading> DatabaseClock::ReadingOf(const PGresult* result, absl::Duration asked_at) {
  ASSIGN_OR_RETURN(const ClockState state, Understand(result, asked_at));
  return Judge(state);
}

DatabaseClock::KnownGuard DatabaseClock::ForInsert() {
  const absl::Duration asked_at = AskedAt();
  if (const std::optional<ClockGuard> guard = view_->Find(asked_at, MaxAge(policy_))) {
    return {*guard, std::nullopt};
  }
  PipelineOutcome outcome = session_->Run({{Query::kClockRead, {}}}, AnswersFrom::kNothing);
  if (outcome.failure.has_value()) return {{}, std::move(outcome.failure)};
  const absl::StatusOr<ClockState> state = Understand(outcome.results.back().get(), asked_at);
  if (!state.ok()) {
    return {{},
            PipelineFailure{PipelineFailure::Effect::kRejected, ErrorKind::kItem,
                            std::string(state.status().message())}};
  }
  return {state->guard, std::nullopt};
}

}  // namespace idempotency
