#include "tests/store/postgres_fixture.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/base/check.h"
#include "server/store/postgres/migrate.h"
#include "tests/util/eventually.h"

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

RawSession::RawSession(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
  IDEM_CHECK(PQstatus(connection_) == CONNECTION_OK) << PQerrorMessage(connection_);
}

RawSession::~RawSession() { PQfinish(connection_); }

std::string RawSession::Sql(const std::string& sql) {
  PGresult* result = PQexec(connection_, sql.c_str());
  const ExecStatusType status = PQresultStatus(result);
  EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
      << PQerrorMessage(connection_) << sql;
  const std::string value =
      PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "";
  PQclear(result);
  return value;
}

void RawSession::Send(const std::string& sql) {
  EXPECT_EQ(PQsendQuery(connection_, sql.c_str()), 1) << PQerrorMessage(connection_);
}

bool RawSession::IsBusy() {
  EXPECT_EQ(PQconsumeInput(connection_), 1) << PQerrorMessage(connection_);
  return PQisBusy(connection_) == 1;
}

WatchedClock::WatchedClock(const std::string& conninfo) {
  auto session = std::make_shared<RawSession>(conninfo);
  session->Sql("SET synchronous_commit = local");
  const auto watch = [session] {
    session->Sql(
        "UPDATE idempotency_clock_guard SET reading = clock_timestamp(), last_jump_at = "
        "'-infinity', timeline = 1, system_identifier = (SELECT system_identifier FROM "
        "pg_control_system())");
  };
  watch();
  thread_ = std::thread([this, watch] {
    while (!ending_) {
      watch();
      absl::SleepFor(absl::Milliseconds(50));
    }
  });
}

WatchedClock::~WatchedClock() {
  ending_ = true;
  thread_.join();
}

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

std::string PostgresFixture::ServerValue(const std::string& sql) {
  const absl::StatusOr<std::string> value =
      QueryValue(SharedPostgres().server().ConnectionString(), sql);
  return value.value_or("");
}

std::string PostgresFixture::BackendPid() {
  return ServerValue(absl::StrCat("SELECT pid FROM pg_stat_activity WHERE datname = '",
                                  database_.name(), "' AND application_name = 'idempotencyd'"));
}

std::string PostgresFixture::AwaitWaiting(absl::string_view wait_event_type,
                                          absl::string_view not_pid) {
  const std::string sql =
      absl::StrCat("SELECT pid FROM pg_stat_activity WHERE datname = '", database_.name(),
                   "' AND application_name = 'idempotencyd' AND wait_event_type = '",
                   wait_event_type, "' AND pid::text <> '", not_pid, "'");
  std::string pid;
  EXPECT_TRUE(Eventually([&] {
    pid = ServerValue(sql);
    return !pid.empty();
  })) << "no backend waits for "
      << wait_event_type;
  return pid;
}

void PostgresFixture::Terminate(const std::string& pid) {
  EXPECT_EQ(ServerValue(absl::StrCat("SELECT pg_terminate_backend(", pid, ", 60000)")), "t");
}

void PostgresFixture::AllowConnections(bool allow) {
  // Through another database, and without waiting for a standby that some tests ask for.
  const absl::Status status =
      Exec(SharedPostgres().server().ConnectionString(),
           absl::StrCat("SET synchronous_commit = local; UPDATE pg_database SET datallowconn = ",
                        allow ? "true" : "false", " WHERE datname = '", database_.name(), "'"));
  ASSERT_TRUE(status.ok()) << status;
}

AttemptHash StoreCalls::Attempt(int n) { return HashAttemptId(absl::StrCat("attempt-", n)); }

BeginItem StoreCalls::Request(absl::string_view key, int attempt) {
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

OwnerItem StoreCalls::Completed(absl::string_view key, int attempt, int32_t status_code) {
  OwnerItem item;
  item.key = {"m1", std::string(key)};
  item.attempt = Attempt(attempt);
  Outcome outcome;
  outcome.status_code = status_code;
  outcome.body = "{}";
  item.answer = std::make_shared<const Answer>(outcome);
  return item;
}

OwnerItem StoreCalls::Failed(absl::string_view key, Disposition disposition, int attempt) {
  OwnerItem item = Completed(key, attempt);
  Failure failure;
  failure.disposition = disposition;
  item.answer = std::make_shared<const Answer>(failure);
  return item;
}

OwnerItem StoreCalls::Renewed(absl::string_view key, absl::Duration lease, int attempt) {
  OwnerItem item = Completed(key, attempt);
  item.answer = nullptr;
  item.lease_duration = lease;
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
