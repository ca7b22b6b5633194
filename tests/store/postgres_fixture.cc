#include "tests/store/postgres_fixture.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/check.h"
#include "server/store/postgres/migrate.h"

namespace idempotency {
namespace {

const std::string& MigratedTemplate() {
  static const std::string* const name = [] {
    const std::string conninfo = CreateDatabase();
    const absl::Status migrated = Migrate(conninfo);
    IDEM_CHECK(migrated.ok()) << migrated;
    return new std::string(DatabaseName(conninfo));
  }();
  return *name;
}

}  // namespace

PostgresFixture::PostgresFixture() : database_(MigratedTemplate()), store_(NewStore()) {}

PostgresStoreOptions PostgresFixture::Options() const {
  PostgresStoreOptions options;
  options.conninfo = conninfo();
  return options;
}

std::unique_ptr<Store> PostgresFixture::NewStore(const PostgresStoreOptions& options) {
  return MakePostgresStoreFactory(options, &metrics_)();
}

void PostgresFixture::Sql(const std::string& sql) {
  const absl::Status status = Exec(conninfo(), sql);
  ASSERT_TRUE(status.ok()) << status << "\n" << sql;
}

std::string PostgresFixture::Value(const std::string& sql) {
  const absl::StatusOr<std::string> value = QueryValue(conninfo(), sql);
  EXPECT_TRUE(value.ok()) << value.status() << "\n" << sql;
  return value.value_or("");
}

std::string PostgresFixture::BackendPid() {
  return Value(
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = "
      "'idempotencyd'");
}

AttemptHash PostgresFixture::Attempt(int n) { return HashAttemptId(absl::StrCat("attempt-", n)); }

BeginItem PostgresFixture::Request(absl::string_view key, int attempt) {
  BeginItem item;
  item.key = {"m1", std::string(key)};
  item.operation = "POST /orders";
  item.fingerprint.fill(7);
  item.fingerprint_scheme = 1;
  item.attempt = Attempt(attempt);
  item.ttl = absl::Hours(24);
  item.lease_duration = absl::Seconds(60);
  return item;
}

OwnerItem PostgresFixture::Completed(absl::string_view key, int attempt, int32_t status_code) {
  OwnerItem item;
  item.key = {"m1", std::string(key)};
  item.attempt = Attempt(attempt);
  Outcome outcome;
  outcome.status_code = status_code;
  outcome.body = "{}";
  item.answer = std::make_shared<const Answer>(outcome);
  return item;
}

BatchResults<BeginResult> PostgresFixture::Begin(const std::vector<BeginItem>& items) {
  return store().BeginBatch(PointersOf(items));
}

BatchResults<OwnerResult> PostgresFixture::Owner(const std::vector<OwnerItem>& items) {
  return store().OwnerBatch(PointersOf(items));
}

absl::StatusOr<BeginResult> PostgresFixture::BeginOne(absl::string_view key, int attempt) {
  return Begin({Request(key, attempt)})[0];
}

absl::StatusOr<OwnerResult> PostgresFixture::CompleteOne(absl::string_view key, int attempt) {
  return Owner({Completed(key, attempt)})[0];
}

std::string NumberedKey(size_t n) { return absl::StrFormat("key-%04d", n); }

}  // namespace idempotency
