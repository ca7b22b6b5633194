#include "tests/util/test_postgres.h"

#include <libpq-fe.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/app/postgres_cluster.h"
#include "server/base/check.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

struct FinishConnection {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ConnectionPtr = std::unique_ptr<PGconn, FinishConnection>;
using ResultPtr = std::unique_ptr<PGresult, ClearResult>;

absl::StatusOr<ResultPtr> Run(const std::string& conninfo, const std::string& sql) {
  const ConnectionPtr connection(PQconnectdb(conninfo.c_str()));
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    return absl::UnavailableError(PQerrorMessage(connection.get()));
  }
  ResultPtr result(PQexec(connection.get(), sql.c_str()));
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    const char* sqlstate = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    return absl::UnknownError(absl::StrCat(sqlstate != nullptr ? sqlstate : "no SQLSTATE", ": ",
                                           PQerrorMessage(connection.get())));
  }
  return result;
}

// Database names here are our own or a test's constant.
std::string QuoteName(absl::string_view name) { return absl::StrCat("\"", name, "\""); }

}  // namespace

TestPostgres::TestPostgres()
    : TestPostgres({{"fsync", "off"},
                    {"synchronous_commit", "on"},
                    {"autovacuum", "on"},
                    {"max_connections", "100"}}) {}

TestPostgres::TestPostgres(std::vector<std::pair<std::string, std::string>> settings) {
  absl::StatusOr<std::unique_ptr<PrivatePostgres>> server =
      PrivatePostgres::Start({.ephemeral = true, .settings = std::move(settings)});
  IDEM_CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
}

std::string TestPostgres::Password() const {
  // The last field of the passfile's one line.
  std::string line;
  std::ifstream file(absl::StrCat(server_->directory(), "/", kClusterPasswordFile));
  IDEM_CHECK(static_cast<bool>(std::getline(file, line))) << "the server has no password";
  return line.substr(line.rfind(':') + 1);
}

std::optional<ProcessUser> ServerUser() {
  if (geteuid() != 0) return std::nullopt;
  absl::StatusOr<ProcessUser> user = FindUser("postgres");
  IDEM_CHECK(user.ok()) << user.status();
  return *std::move(user);
}

std::string TestPostgres::CreateDatabase(absl::string_view template_database) {
  static std::atomic<int> next = 1;
  const std::string name = absl::StrCat("test_", next++);
  const absl::Status status =
      Exec(server_->ConnectionString(),
           absl::StrCat("CREATE DATABASE ", name, " TEMPLATE ", QuoteName(template_database),
                        " ENCODING 'UTF8' LOCALE 'C.UTF-8'"));
  IDEM_CHECK(status.ok()) << status;
  return server_->ConnectionString(name);
}

void TestPostgres::DropDatabase(const std::string& conninfo) {
  const absl::Status status =
      Exec(server_->ConnectionString(),
           absl::StrCat("DROP DATABASE ", QuoteName(DatabaseName(conninfo)), " WITH (FORCE)"));
  IDEM_CHECK(status.ok()) << status;
}

TestPostgres& SharedPostgres() {
  // A static object and not a GoogleTest environment: binaries that never ask never start one, and
  // its destructor runs after those of the fixtures.
  static TestPostgres postgres;
  return postgres;
}

std::string CreateDatabase(absl::string_view template_database) {
  return SharedPostgres().CreateDatabase(template_database);
}

TestDatabase::TestDatabase(absl::string_view template_database)
    : conninfo_(CreateDatabase(template_database)) {}

TestDatabase::~TestDatabase() { SharedPostgres().DropDatabase(conninfo_); }

std::string TestDatabase::name() const { return DatabaseName(conninfo_); }

std::string DatabaseName(const std::string& conninfo) {
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(conninfo.c_str(), &error);
  IDEM_CHECK(options != nullptr) << (error != nullptr ? error : "out of memory");
  std::string name;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (strcmp(option->keyword, "dbname") == 0 && option->val != nullptr) name = option->val;
  }
  PQconninfoFree(options);
  return name;
}

absl::Status Exec(const std::string& conninfo, const std::string& sql) {
  return Run(conninfo, sql).status();
}

absl::StatusOr<std::string> QueryValue(const std::string& conninfo, const std::string& sql) {
  ASSIGN_OR_RETURN(const ResultPtr result, Run(conninfo, sql));
  if (PQntuples(result.get()) == 0 || PQnfields(result.get()) == 0) {
    return absl::NotFoundError(absl::StrCat("no row: ", sql));
  }
  return std::string(PQgetvalue(result.get(), 0, 0), PQgetlength(result.get(), 0, 0));
}

}  // namespace idempotency
