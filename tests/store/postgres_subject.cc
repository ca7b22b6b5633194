#include "tests/store/postgres_subject.h"

#include <utility>

#include "server/base/check.h"
#include "server/store/postgres/migrate.h"

namespace idempotency {
namespace {

absl::Time Start() { return absl::FromUnixMicros(1'800'000'000'123'457); }

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
}

std::unique_ptr<Store> PostgresSubject::Connect() { return ConnectWith({}); }

std::unique_ptr<Store> PostgresSubject::ConnectWith(PostgresStoreOptions options) {
  options.conninfo = Shared().clock->conninfo();
  options.policy = policy_;
  return MakePostgresStoreFactory(std::move(options), &metrics_)();
}

absl::Time PostgresSubject::Now() { return Shared().clock->Now(); }

void PostgresSubject::AdvanceClock(absl::Duration by) { Shared().clock->Advance(by); }

const std::string& PostgresSubject::conninfo() const { return Shared().database.conninfo(); }

}  // namespace idempotency
