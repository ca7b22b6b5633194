// A real PostgreSQL for tests: one ephemeral server for a test binary, a database for each fixture.
//
//   class StoreTest : public ::testing::Test {
//    protected:
//     TestDatabase database_;
//     // connect to database_.conninfo()
//   };
//
// Everything here is for tests: what fails ends the test binary with a message, but Exec and
// QueryValue, which return a status.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/app/child_process.h"
#include "server/app/private_postgres.h"

namespace idempotency {

// An ephemeral server, running from construction to destruction. fsync is off, synchronous_commit
// and autovacuum are on, max_connections is 100. It dies with the test binary, also when that is
// killed. Thread-safe but for server().
class TestPostgres {
 public:
  TestPostgres();
  // With these settings instead, which no ALTER SYSTEM changes then.
  explicit TestPostgres(std::vector<std::pair<std::string, std::string>> settings);
  TestPostgres(const TestPostgres&) = delete;
  TestPostgres& operator=(const TestPostgres&) = delete;

  // To restart or kill it, and ask for its port. For one thread at a time.
  PrivatePostgres& server() { return *server_; }
  // Of kClusterSuperuser.
  std::string Password() const;

  // A new, uniquely named database. Returns its connection string (superuser). It is empty, or a
  // copy of a template, to which nobody may be connected then. About 0.1 s.
  std::string CreateDatabase(absl::string_view template_database = "template0");

  // Ends the sessions of the database that the connection string names, and drops it.
  void DropDatabase(const std::string& conninfo);

 private:
  std::unique_ptr<PrivatePostgres> server_;
};

// Whom servers are run as that do not run as root; nothing: as the current user.
std::optional<ProcessUser> ServerUser();

// The test binary's server: started at the first call, stopped when the binary exits. Thread-safe.
TestPostgres& SharedPostgres();

// SharedPostgres().CreateDatabase.
std::string CreateDatabase(absl::string_view template_database = "template0");

// A database on SharedPostgres() that is dropped at the end. A database is 8 MB on disk: a fixture
// that many tests use should give its back.
class TestDatabase {
 public:
  explicit TestDatabase(absl::string_view template_database = "template0");
  ~TestDatabase();
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  const std::string& conninfo() const { return conninfo_; }
  // For use as a template of others.
  std::string name() const;

 private:
  const std::string conninfo_;
};

// The database that a connection string names.
std::string DatabaseName(const std::string& conninfo);

// Runs SQL, which may be several statements, on a connection of its own. The status message is
// PostgreSQL's and holds the SQLSTATE: "40P01: ERROR:  deadlock detected". Unavailable when the
// connection fails, Unknown when the SQL does.
absl::Status Exec(const std::string& conninfo, const std::string& sql);

// As Exec for one statement. Returns the first column of the first row as text, "" for NULL.
// NotFound when there is no row.
absl::StatusOr<std::string> QueryValue(const std::string& conninfo, const std::string& sql);

}  // namespace idempotency
