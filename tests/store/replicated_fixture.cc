#include "tests/store/replicated_fixture.h"

#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "server/store/postgres/migrate.h"
#include "tests/util/eventually.h"

namespace idempotency {

TestReplication& ReplicatedFixture::Servers() {
  static TestReplication servers(2);
  return servers;
}

ReplicatedFixture::ReplicatedFixture() : conninfo_(Servers().primary().CreateDatabase()) {
  const absl::Status migrated = Migrate(conninfo_);
  IDEM_CHECK(migrated.ok()) << migrated;
}

ReplicatedFixture::~ReplicatedFixture() {
  Servers().Recover();
  Servers().primary().DropDatabase(conninfo_);
}

void ReplicatedFixture::FreezeStandbys() {
  for (const int number : {1, 2}) Servers().standby(number).Freeze();
}

void ReplicatedFixture::ThawStandbys() {
  for (const int number : {1, 2}) Servers().standby(number).Thaw();
}

PostgresStoreOptions ReplicatedFixture::PatientOptions() const {
  PostgresStoreOptions options;
  options.conninfo = conninfo_;
  options.durability = Durability::kReplicated;
  options.statement_timeout = absl::Minutes(5);
  options.commit_timeout = absl::Minutes(5);
  options.lock_timeout = absl::Minutes(5);
  options.retry_budget = absl::Minutes(5);
  return options;
}

PostgresStoreOptions ReplicatedFixture::HastyOptions() const {
  PostgresStoreOptions options = PatientOptions();
  options.commit_timeout = absl::Milliseconds(300);
  return options;
}

std::unique_ptr<Store> ReplicatedFixture::NewStore(const PostgresStoreOptions& options) {
  return NewFactory(options)();
}

StoreFactory ReplicatedFixture::NewFactory(const PostgresStoreOptions& options) {
  return MakePostgresStoreFactory(options, &metrics_);
}

absl::StatusOr<BeginResult> ReplicatedFixture::BeginOn(Store& store, absl::string_view key,
                                                       int attempt) {
  const BeginItem item = Request(key, attempt);
  const BeginItem* const items[] = {&item};
  return store.BeginBatch(items)[0];
}

absl::StatusOr<OwnerResult> ReplicatedFixture::CompleteOn(Store& store, absl::string_view key,
                                                          int attempt) {
  const OwnerItem item = Completed(key, attempt);
  const OwnerItem* const items[] = {&item};
  return store.OwnerBatch(items)[0];
}

absl::StatusOr<LookupResult> ReplicatedFixture::LookupOn(Store& store, absl::string_view key) {
  const LookupItem item = LookupOf(key);
  const LookupItem* const items[] = {&item};
  return store.LookupBatch(items)[0];
}

void ReplicatedFixture::Admin(const std::string& sql) {
  const absl::Status status = Exec(Servers().AdminConninfo(DatabaseName(conninfo_)), sql);
  ASSERT_TRUE(status.ok()) << status << sql;
}

std::string ReplicatedFixture::AdminValue(const std::string& sql) {
  const auto value = QueryValue(Servers().AdminConninfo(DatabaseName(conninfo_)), sql);
  EXPECT_TRUE(value.ok()) << value.status() << sql;
  return value.value_or("");
}

int ReplicatedFixture::CountWaiting() {
  return std::atoi(AdminValue("SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                              "'idempotencyd' AND datname = current_database() AND wait_event = "
                              "'SyncRep'")
                       .c_str());
}

std::string ReplicatedFixture::AwaitWaiting(absl::string_view not_pid) {
  std::string pid;
  EXPECT_TRUE(Eventually([&] {
    pid = AdminValue(absl::StrCat(
        "SELECT COALESCE(max(pid)::text, '') FROM pg_stat_activity WHERE application_name = "
        "'idempotencyd' AND datname = current_database() AND wait_event = 'SyncRep' AND pid::text "
        "<> '",
        not_pid, "'"));
    return !pid.empty();
  })) << "no commit waits for a standby";
  return pid;
}

void ReplicatedFixture::InsertUnreplicated(absl::string_view key) {
  Admin(absl::StrCat(
      "INSERT INTO idempotency_record (created_at, lease_expires_at, ttl_seconds, lease_ms, "
      "attempt_number, attempt_hash, flags, state, merchant_id, idempotency_key, fingerprint, "
      "operation) SELECT now(), now() + interval '1 h', 86400, 3600000, 1, "
      "substr(sha256('attempt-1')::text, 3, 32)::uuid, 256, 1, 'm1', '",
      key, "', decode(repeat('07', 32), 'hex'), 'POST /orders'"));
}

void ReplicatedFixture::ExpectWaitsForStandby(const std::function<void(Store&)>& call) {
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  std::atomic<bool> is_answered{false};
  std::thread caller([&] {
    call(*patient);
    is_answered = true;
  });
  AwaitWaiting();
  EXPECT_FALSE(is_answered) << "answered before a standby had it";
  ThawStandbys();
  caller.join();
}

}  // namespace idempotency
