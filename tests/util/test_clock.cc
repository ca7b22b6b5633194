#include "tests/util/test_clock.h"

#include <libpq-fe.h>

#include "absl/strings/str_cat.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

// VOLATILE, so that each call looks at the table with a snapshot of its own, as the real function
// reads the clock at each call.
constexpr char kInstall[] = R"(
CREATE SCHEMA test_clock;
CREATE TABLE test_clock.reading (at timestamptz NOT NULL, ahead interval);
INSERT INTO test_clock.reading VALUES (pg_catalog.clock_timestamp(), NULL);
CREATE FUNCTION test_clock.clock_timestamp() RETURNS timestamptz
LANGUAGE sql VOLATILE
AS 'SELECT COALESCE(pg_catalog.clock_timestamp() + r.ahead, r.at) FROM test_clock.reading AS r';
)";

}  // namespace

struct TestClock::Connection {
  explicit Connection(const std::string& conninfo) : connection(PQconnectdb(conninfo.c_str())) {
    IDEM_CHECK(PQstatus(connection) == CONNECTION_OK) << PQerrorMessage(connection);
  }
  ~Connection() { PQfinish(connection); }

  void Exec(const std::string& sql) {
    PGresult* result = PQexec(connection, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    IDEM_CHECK(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(connection);
  }

  PGconn* const connection;
};

TestClock::TestClock(const std::string& conninfo, absl::Time now)
    : conninfo_(absl::StrCat(conninfo, " options='-csearch_path=test_clock,pg_catalog,public'")),
      connection_(std::make_unique<Connection>(conninfo_)) {
  connection_->Exec(kInstall);
  FreezeAt(now);
}

TestClock::~TestClock() = default;

void TestClock::FreezeAt(absl::Time now) {
  const int64_t micros = absl::ToUnixMicros(now);
  now_ = absl::FromUnixMicros(micros);
  // Whole microseconds: to_timestamp() takes a float and would round.
  connection_->Exec(absl::StrCat(
      "UPDATE test_clock.reading SET ahead = NULL, "
      "at = 'epoch'::timestamptz + ",
      micros / 1'000'000, " * interval '1 s' + ", micros % 1'000'000, " * interval '1 us'"));
}

void TestClock::Run(absl::Duration ahead) {
  connection_->Exec(absl::StrCat("UPDATE test_clock.reading SET ahead = ",
                                 absl::ToInt64Microseconds(ahead), " * interval '1 us'"));
}

void TestClock::Exec(const std::string& sql) { connection_->Exec(sql); }

}  // namespace idempotency
