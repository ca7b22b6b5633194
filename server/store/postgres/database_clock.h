// The database's clock as the store's statements read it, with what is known of it.
//
// clock_read.sql goes into the pipeline of whatever is decided on, after the statement that read or
// locked the rows. What it tells of the guard's row is also kept for the fast path of Begin, which
// reads no table but inserts rows with tokens: see ClockView.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/record/clock_guard.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace idempotency {

// The guard's row as one replica read it last. All stores of a replica share one: its clock watch
// keeps it fresh, four times a second.
//
// begin_insert.sql makes a new record's token of it and the clock. That the row may have moved on
// meanwhile is harmless while it is younger than MaxAge: a token must only be above those of the
// same key before it was purged, and what was begun after the row was read is not purged yet, nor
// is anything within ExpiryPause of a jump.
//
// Thread-safe.
class ClockView {
 public:
  // `asked_at`, on Clock::BootTime's scale, is before the row was read.
  void Saw(const ClockGuard& guard, absl::Duration asked_at);
  // Nothing when the row was read more than `max_age` ago.
  std::optional<ClockGuard> Find(absl::Duration now, absl::Duration max_age) const;

 private:
  mutable Mutex mu_;
  std::optional<ClockGuard> guard_ ABSL_GUARDED_BY(mu_);
  absl::Duration asked_at_ ABSL_GUARDED_BY(mu_);
};

// For one thread at a time, as the session.
class DatabaseClock {
 public:
  // `session` must outlive this.
  DatabaseClock(const Policy& policy, std::shared_ptr<ClockView> view, Session* session);

  const Policy& policy() const { return policy_; }
  // Before the pipeline is sent in which clock_read.sql is.
  static absl::Duration AskedAt();
  // A result of clock_read.sql or, `refreshed`, of clock_refresh.sql.
  absl::StatusOr<ClockState> Understand(const PGresult* result, absl::Duration asked_at,
                                        bool refreshed = false);
  // As it is to be decided on.
  Reading Judge(const ClockState& state) const {
    return ReadingBy(state.guard, state.now, state.is_same_history, policy_);
  }
  // Both, for a result of clock_read.sql.
  absl::StatusOr<Reading> ReadingOf(const PGresult* result, absl::Duration asked_at);

  // The guard's row for begin_insert.sql: from the view if that is fresh, else from the database.
  struct KnownGuard {
    ClockGuard guard;
    std::optional<PipelineFailure> failure;
  };
  KnownGuard ForInsert();

 private:
  const Policy policy_;
  const std::shared_ptr<ClockView> view_;
  Session* const session_;
};

}  // namespace idempotency
