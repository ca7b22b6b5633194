#include "tests/store/postgres_subject.h"

#include <utility>

#include "server/base/check.h"
#include "server/store/postgres/migrate.h"

namespace idempotency {
namespace {

absl::Time Start() { return absl::FromUnixMicros(1'800'000'000'123'457); }

// The guard's row as if replicas had been there all the time and no clock had ever jumped.
constexpr char kFreshGuard[] = R"(
INSERT INTO idempotency_clock_guard AS g (system_identifier, timeline, reading, last_jump_at, last_jump_reason,
    token_offset_us)
SELECT c.system_identifier, 1, clock_timestamp(), '-infinity', 1, 0
FROM pg_control_system() AS c
ON CONFLICT (singleton) DO UPDATE
SET (system_identifier, timeline, reading, last_jump_at, last_jump_reason, token_offset_us) =
    (EXCLUDED.system_identifier, EXCLUDED.timeline, EXCLUDED.reading, EXCLUDED.last_jump_at, 1, 0))";
constexpr char kRefreshed[] =
    "UPDATE idempotency_clock_guard SET reading = clock_timestamp(), "
    "last_jump_at = LEAST(last_jump_at, clock_timestamp())";

// Created with the first subject of the binary; the server outlives it.
struct SharedDatabase {
  SharedDatabase() {
    const absl::Status migrated = Migrate(database.conninfo());
    IDEM_CHECK(migrated.ok()) << migrated;
    clock = std::make_unique<TestClock>(database.conninfo(), Start());
  }

  TestDatabase database;
  std::unique_ptr<TestClock> clock;
};

SharedDatabase& Shared() {
  static SharedDatabase shared;
  return shared;
}

}  // namespace

PostgresSubject::PostgresSubject(const Policy& policy) : policy_(policy) {
  const absl::Status emptied = Exec(Shared().database.conninfo(), "TRUNCATE idempotency_record");
  IDEM_CHECK(emptied.ok()) << emptied;
  Shared().clock->FreezeAt(Start());
  Shared().clock->Exec(kFreshGuard);
  PostgresStoreOptions options;
  options.conninfo = Shared().clock->conninfo();
  options.policy = policy_;
  factory_ = MakePostgresStoreFactory(std::move(options), &metrics_);
  watch_ = factory_();
}

std::unique_ptr<Store> PostgresSubject::Connect() { return factory_(); }

std::unique_ptr<Store> PostgresSubject::ConnectWith(PostgresStoreOptions options) {
  options.conninfo = Shared().clock->conninfo();
  options.policy = policy_;
  return MakePostgresStoreFactory(std::move(options), &metrics_)();
}

absl::Time PostgresSubject::Now() { return Shared().clock->Now(); }

void PostgresSubject::AdvanceClock(absl::Duration by) {
  Shared().clock->Advance(by);
  Shared().clock->Exec(kRefreshed);
  Look();
}

void PostgresSubject::JumpClock(absl::Duration by) { Shared().clock->Advance(by); }

void PostgresSubject::Look() {
  const absl::StatusOr<ClockState> seen = watch_->ReadClock();
  IDEM_CHECK(seen.ok()) << seen.status();
}

const std::string& PostgresSubject::conninfo() const { return Shared().database.conninfo(); }

}  // namespace idempotency
