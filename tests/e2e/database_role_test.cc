// The service on a role that owns nothing, and on libpq's own variables, service file and passfile.
#include <libpq-fe.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/client.h"
#include "tests/e2e/replicas.h"
#include "tests/e2e/service_process.h"
#include "tests/util/eventually.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::Not;

std::map<std::string, std::string> PartsOf(const std::string& conninfo) {
  std::map<std::string, std::string> parts;
  PQconninfoOption* const options = PQconninfoParse(conninfo.c_str(), nullptr);
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) parts[option->keyword] = option->val;
  }
  PQconninfoFree(options);
  return parts;
}

class DatabaseRole : public testing::Test {
 protected:
  DatabaseRole() : parts_(PartsOf(database_.conninfo())) {
    std::string path =
        (std::filesystem::temp_directory_path() / "idempotencyd-role-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    role_ = absl::StrCat("service_of_", parts_["dbname"]);
    Sql(absl::StrCat("CREATE ROLE ", role_, " LOGIN PASSWORD 'hunter2'"));
  }
  ~DatabaseRole() override {
    Sql(absl::StrCat("DROP OWNED BY ", role_, "; DROP ROLE ", role_));
    std::filesystem::remove_all(directory_);
  }

  void Sql(const std::string& sql) const {
    const absl::Status status = Exec(database_.conninfo(), sql);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Where the role connects to, with its password.
  std::string RoleConninfo() {
    return absl::StrCat("host=", parts_["host"], " port=", parts_["port"],
                        " dbname=", parts_["dbname"], " user=", role_, " password=hunter2");
  }
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = absl::StrCat(directory_, "/", name);
    std::ofstream(path) << content;
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  std::string Passfile() { return Write("pass", absl::StrCat("*:*:*:", role_, ":hunter2\n")); }
  // As ServeArguments, without a database URL.
  static std::vector<std::string> ServeWithoutUrl() {
    std::vector<std::string> arguments;
    for (const std::string& argument : ServeArguments("")) {
      if (!absl::StartsWith(argument, "--database-url")) arguments.push_back(argument);
    }
    return arguments;
  }
  // The service on these variables serves and begins a record.
  void ExpectServes(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& variables) {
    ASSERT_TRUE(Migrate(database_.conninfo(), role_).ok());
    ServiceProcess process(arguments, variables);
    const std::string address = process.AwaitAddress();
    ASSERT_NE(address, "") << process.Log();
    Client client(address);
    EXPECT_TRUE(Eventually([&] { return client.IsServing(); })) << process.Log();
    EXPECT_TRUE(client.Begin(BeginOf("k", "a")).response.has_started()) << process.Log();
    EXPECT_THAT(process.Log(), Not(HasSubstr("hunter2")));
    const absl::StatusOr<std::string> user = QueryValue(
        database_.conninfo(),
        "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'idempotencyd'");
    EXPECT_EQ(user.value_or(""), role_);
  }

  const TestDatabase database_;
  std::map<std::string, std::string> parts_;
  std::string directory_;
  std::string role_;
};

TEST_F(DatabaseRole, LibpqsVariablesAndPassfileNameTheDatabase) {
  ExpectServes(ServeWithoutUrl(),
               {"PGHOST=" + parts_["host"], "PGPORT=" + parts_["port"],
                "PGDATABASE=" + parts_["dbname"], "PGUSER=" + role_, "PGPASSFILE=" + Passfile()});
}

TEST_F(DatabaseRole, AServiceFileNamesTheDatabase) {
  const std::string file =
      Write("service", absl::StrCat("[payments]\nhost=", parts_["host"], "\nport=", parts_["port"],
                                    "\ndbname=", parts_["dbname"], "\nuser=", role_, "\n"));
  ExpectServes(ServeWithoutUrl(),
               {"PGSERVICE=payments", "PGSERVICEFILE=" + file, "PGPASSFILE=" + Passfile()});
}

TEST_F(DatabaseRole, AUrlWithoutAPasswordTakesItFromThePassfile) {
  ExpectServes(ServeArguments(absl::StrCat("postgresql://", role_, "@", parts_["host"], ":",
                                           parts_["port"], "/", parts_["dbname"])),
               {"PGPASSFILE=" + Passfile()});
}

TEST_F(DatabaseRole, AFileHoldsTheUrl) {
  ExpectServes(ServeWithoutUrl(),
               {"IDEMPOTENCY_DATABASE_URL_FILE=" + Write("url", RoleConninfo() + "\n")});
}

TEST_F(DatabaseRole, MigrateTakesLibpqsVariables) {
  ServiceProcess process(
      {"migrate", "up", "--grant-to=" + role_},
      {"PGHOST=" + parts_["host"], "PGPORT=" + parts_["port"], "PGDATABASE=" + parts_["dbname"],
       "PGUSER=" + parts_["user"], "PGPASSFILE=" + parts_["passfile"]});
  ASSERT_TRUE(process.AwaitEnd());
  EXPECT_EQ(process.HowItEnded(), "exit status 0") << process.Log();
  EXPECT_TRUE(QueryValue(RoleConninfo(), "SELECT count(*) FROM idempotency_record").ok());
}

TEST_F(DatabaseRole, MayDoNothingButWhatTheServiceNeeds) {
  ASSERT_TRUE(Migrate(database_.conninfo(), role_).ok());
  for (const std::string sql :
       {"CREATE TABLE t (a int)", "ALTER TABLE idempotency_record ADD COLUMN a int",
        "DROP TABLE idempotency_record", "TRUNCATE idempotency_record",
        "DROP TABLE idempotency_migration", "DELETE FROM idempotency_migration",
        "UPDATE idempotency_migration SET name = ''",
        "CREATE INDEX i ON idempotency_record (created_at)",
        "INSERT INTO idempotency_migration VALUES (99, 'x', '')"}) {
    const absl::Status status = Exec(RoleConninfo(), sql);
    EXPECT_THAT(std::string(status.message()), HasSubstr("42501")) << sql;
  }
}

TEST_F(DatabaseRole, TheWholeFlowRunsOnIt) {
  ASSERT_TRUE(Migrate(database_.conninfo(), role_).ok());
  ServiceProcess process(
      ServeArguments(RoleConninfo(), {"--sweep-interval=10ms", "--sweep-grace=0",
                                      "--purge-interval=10ms", "--replay-window=100ms"}));
  const std::string address = process.AwaitAddress();
  ASSERT_NE(address, "") << process.Log();
  Client client(address);
  ASSERT_TRUE(Eventually([&] { return client.IsServing(); })) << process.Log();
  // Completed, replayed, expired and purged.
  v1::BeginRequest begin = BeginOf("purged", "a");
  SetDuration(begin.mutable_ttl(), absl::Seconds(1));
  EXPECT_TRUE(client.Begin(begin).response.has_started());
  EXPECT_TRUE(client.Renew(RenewOf("purged", "a")).ok());
  EXPECT_TRUE(client.Complete(CompleteOf("purged", "a")).ok());
  EXPECT_TRUE(client.Begin(begin).response.has_replay());
  // Failed, begun again, refused late.
  EXPECT_TRUE(client.Begin(BeginOf("failed", "a")).response.has_started());
  EXPECT_TRUE(client.Fail(FailOf("failed", "a", v1::FAILURE_DISPOSITION_NOT_APPLIED)).ok());
  EXPECT_TRUE(client.Begin(BeginOf("failed", "b")).response.has_started());
  EXPECT_EQ(client.Complete(CompleteOf("failed", "a")).reason, "LEASE_LOST");
  // Abandoned, swept, taken over.
  v1::BeginRequest abandoned = BeginOf("swept", "a");
  SetDuration(abandoned.mutable_lease_duration(), absl::Milliseconds(100));
  EXPECT_TRUE(client.Begin(abandoned).response.has_started());
  EXPECT_TRUE(Eventually([&] {
    return process.Log().find("\"event\":\"swept\"") != std::string::npos;
  })) << process.Log();
  EXPECT_TRUE(client.Begin(BeginOf("swept", "b")).response.has_started());
  EXPECT_TRUE(
      Eventually([&] { return client.Lookup(LookupOf("purged")).reason == "RECORD_NOT_FOUND"; }));
  EXPECT_THAT(process.Log(), Not(HasSubstr("maintenance_failed")));
  EXPECT_THAT(process.Log(), Not(HasSubstr("permission denied")));
}

}  // namespace
}  // namespace idempotency
