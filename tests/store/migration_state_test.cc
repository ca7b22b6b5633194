// `migrate` with migrations of its own making: several of them, newer ones, changed ones, and the
// script for psql.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/app/child_process.h"
#include "server/store/postgres/migrate.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Kind = MigrationState::Kind;

constexpr Migration kThree[] = {
    {1, "create_one", "CREATE TABLE one (a int); -- it's a \"quote\"\n", 1},
    {2, "create_two", "CREATE TABLE two (b int);\nINSERT INTO two VALUES (1);\n", 1},
    {3, "drop_one", "DROP TABLE one;", 2},
};

absl::Span<const Migration> FirstOnes(size_t count) {
  return absl::MakeConstSpan(kThree).subspan(0, count);
}

// Everything of the schema that pg_dump shows, and what is noted about migrations.
std::string StateOf(const std::string& conninfo) {
  const absl::StatusOr<std::string> dump = RunAndRead(
      {"/usr/bin/env", "pg_dump", "--schema-only", "--dbname", conninfo}, absl::Minutes(1));
  EXPECT_TRUE(dump.ok()) << dump.status();
  // Newer ones of pg_dump begin and end with a random word.
  std::vector<std::string> lines = absl::StrSplit(dump.value_or(""), '\n');
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](const std::string& line) {
                               return absl::StartsWith(line, "\\restrict") ||
                                      absl::StartsWith(line, "\\unrestrict");
                             }),
              lines.end());
  const absl::StatusOr<std::string> notes = QueryValue(
      conninfo,
      "SELECT string_agg(concat_ws('|', version, name, checksum, oldest_server), ';' ORDER BY "
      "version) FROM idempotency_migration");
  EXPECT_TRUE(notes.ok()) << notes.status();
  return absl::StrCat(absl::StrJoin(lines, "\n"), notes.value_or(""));
}

// Applies a script as a DBA would. Whether psql said that all went well, and what it printed.
std::pair<bool, std::string> Psql(const std::string& conninfo, const std::string& script,
                                  bool stop_at_errors = true) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       absl::StrCat("idempotencyd-", getpid(), "-", DatabaseName(conninfo), ".sql"))
          .string();
  std::ofstream(path, std::ios::binary) << script;
  const absl::StatusOr<std::string> printed = RunAndRead(
      {"/usr/bin/env", "psql", "-X", "-v", absl::StrCat("ON_ERROR_STOP=", stop_at_errors ? 1 : 0),
       "-d", conninfo, "-f", path},
      absl::Minutes(1));
  std::filesystem::remove(path);
  return {printed.ok(), printed.ok() ? *printed : std::string(printed.status().message())};
}

class MigrationStateTest : public testing::Test {
 protected:
  const std::string& conninfo() const { return database_.conninfo(); }
  void Sql(const std::string& sql) const {
    const absl::Status status = Exec(conninfo(), sql);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string Value(const std::string& sql) const {
    const absl::StatusOr<std::string> value = QueryValue(conninfo(), sql);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or("");
  }
  SchemaStatus Status(absl::Span<const Migration> migrations) const {
    const absl::StatusOr<SchemaStatus> status = ReadSchemaStatus(conninfo(), migrations);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.value_or(SchemaStatus());
  }
  static std::vector<Kind> KindsOf(const SchemaStatus& status) {
    std::vector<Kind> kinds;
    for (const MigrationState& state : status.migrations) kinds.push_back(state.kind);
    return kinds;
  }
  TestDatabase database_;
};

TEST_F(MigrationStateTest, AllArePendingInAnEmptyDatabase) {
  const SchemaStatus status = Status(kThree);
  EXPECT_THAT(KindsOf(status), ElementsAre(Kind::kPending, Kind::kPending, Kind::kPending));
  EXPECT_TRUE(status.fit.ok());
  EXPECT_FALSE(status.is_up_to_date);
  // It has looked only.
  EXPECT_EQ(Value("SELECT count(*) FROM pg_class WHERE relname = 'idempotency_migration'"), "0");
}

TEST_F(MigrationStateTest, SeveralAreAppliedInOrderAndOnlyWhatIsMissing) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(2)).ok());
  const SchemaStatus behind = Status(kThree);
  EXPECT_THAT(KindsOf(behind), ElementsAre(Kind::kApplied, Kind::kApplied, Kind::kPending));
  EXPECT_FALSE(behind.is_up_to_date);
  EXPECT_LT(behind.migrations[0].applied_at, behind.migrations[1].applied_at);
  ASSERT_TRUE(Migrate(conninfo(), "", kThree).ok());
  EXPECT_TRUE(Status(kThree).is_up_to_date);
  EXPECT_EQ(Value("SELECT count(*) FROM two"), "1");
  EXPECT_EQ(Value("SELECT oldest_server FROM idempotency_migration WHERE version = 3"), "2");
}

TEST_F(MigrationStateTest, WhatComesBeforeAFailingOneStays) {
  Migration failing[] = {kThree[0], kThree[1], kThree[2]};
  failing[1].sql = "CREATE TABLE two (b int); SELECT 1 / 0;";
  const absl::Status status = Migrate(conninfo(), "", failing);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("0002_create_two"), HasSubstr("22012")));
  EXPECT_EQ(*SchemaVersion(conninfo()), 1);
  EXPECT_TRUE(Migrate(conninfo(), "", kThree).ok());
}

TEST_F(MigrationStateTest, AChangedOneIsToldAndStopsMigrating) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(2)).ok());
  Migration changed[] = {kThree[0], kThree[1], kThree[2]};
  changed[1].sql = "CREATE TABLE two (c int);";
  const SchemaStatus status = Status(changed);
  EXPECT_THAT(KindsOf(status), ElementsAre(Kind::kApplied, Kind::kDiffers, Kind::kPending));
  EXPECT_THAT(std::string(status.fit.message()), HasSubstr("0002_create_two"));
  EXPECT_EQ(Migrate(conninfo(), "", changed).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*SchemaVersion(conninfo()), 2);
}

TEST_F(MigrationStateTest, AMissingOneIsTold) {
  ASSERT_TRUE(Migrate(conninfo(), "", kThree).ok());
  Sql("DELETE FROM idempotency_migration WHERE version = 2");
  const SchemaStatus status = Status(kThree);
  EXPECT_THAT(KindsOf(status), ElementsAre(Kind::kApplied, Kind::kPending, Kind::kApplied));
  EXPECT_THAT(std::string(status.fit.message()),
              AllOf(HasSubstr("0002_create_two"), HasSubstr("version 3")));
  EXPECT_EQ(Migrate(conninfo(), "", kThree).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MigrationStateTest, ANewerSchemaForServersThisOldIsLeftAsItIs) {
  ASSERT_TRUE(Migrate(conninfo(), "", kThree).ok());
  // 0003 says that it is for servers of schema 2 and newer.
  const std::string before = StateOf(conninfo());
  EXPECT_TRUE(Migrate(conninfo(), "", FirstOnes(2)).ok());
  EXPECT_EQ(StateOf(conninfo()), before);
  const SchemaStatus status = Status(FirstOnes(2));
  EXPECT_TRUE(status.fit.ok()) << status.fit;
  EXPECT_TRUE(status.is_up_to_date);
  EXPECT_THAT(KindsOf(status), ElementsAre(Kind::kApplied, Kind::kApplied, Kind::kNewer));
  EXPECT_EQ(status.migrations[2].oldest_server, 2);
}

TEST_F(MigrationStateTest, ANewerSchemaForNewerServersNamesAllVersions) {
  ASSERT_TRUE(Migrate(conninfo(), "", kThree).ok());
  const absl::Status status = Migrate(conninfo(), "", FirstOnes(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("version 3"), HasSubstr("schema 2"), HasSubstr("knows is 1")));
  EXPECT_EQ(Status(FirstOnes(1)).fit.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MigrationStateTest, AListWithoutTheOldestServerIsBroughtUpToDate) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(1)).ok());
  Sql("ALTER TABLE idempotency_migration DROP COLUMN oldest_server");
  EXPECT_EQ(Status(FirstOnes(1)).migrations[0].oldest_server, 1);
  // Nothing to apply, nothing to change: also a role that owns nothing may ask.
  EXPECT_TRUE(Migrate(conninfo(), "", FirstOnes(1)).ok());
  EXPECT_EQ(Value("SELECT count(*) FROM pg_attribute WHERE attrelid = "
                  "'idempotency_migration'::regclass AND attname = 'oldest_server'"),
            "0");
  ASSERT_TRUE(Migrate(conninfo(), "", kThree).ok());
  EXPECT_TRUE(Status(kThree).is_up_to_date);
}

TEST_F(MigrationStateTest, TheScriptLeavesTheSameStateAsMigrate) {
  for (const absl::Span<const Migration> migrations :
       {absl::MakeConstSpan(kThree), EmbeddedMigrations()}) {
    const TestDatabase migrated;
    ASSERT_TRUE(Migrate(migrated.conninfo(), "", migrations).ok());
    const TestDatabase by_hand;
    const auto [is_done, printed] = Psql(by_hand.conninfo(), MigrationScript(1, "", migrations));
    EXPECT_TRUE(is_done) << printed;
    EXPECT_EQ(StateOf(by_hand.conninfo()), StateOf(migrated.conninfo()));
    const absl::StatusOr<SchemaStatus> status = ReadSchemaStatus(by_hand.conninfo(), migrations);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_TRUE(status->fit.ok() && status->is_up_to_date) << status->fit;
    EXPECT_TRUE(Migrate(by_hand.conninfo(), "", migrations).ok());
  }
}

TEST_F(MigrationStateTest, TheScriptGoesOnFromAnyVersion) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(1)).ok());
  const std::string script = MigrationScript(2, "", kThree);
  EXPECT_THAT(script, AllOf(Not(HasSubstr("create_one")), HasSubstr("create_two")));
  const auto [is_done, printed] = Psql(conninfo(), script);
  EXPECT_TRUE(is_done) << printed;
  EXPECT_TRUE(Status(kThree).is_up_to_date);
}

TEST_F(MigrationStateTest, TheScriptAlsoMeetsAListWithoutTheOldestServer) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(1)).ok());
  Sql("ALTER TABLE idempotency_migration DROP COLUMN oldest_server");
  const auto [is_done, printed] = Psql(conninfo(), MigrationScript(2, "", kThree));
  EXPECT_TRUE(is_done) << printed;
  EXPECT_TRUE(Status(kThree).is_up_to_date);
}

TEST_F(MigrationStateTest, TheScriptAppliesNothingTwiceNorOutOfOrder) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(2)).ok());
  const std::string before = StateOf(conninfo());
  for (const bool stop_at_errors : {true, false}) {
    const auto [is_done, printed] =
        Psql(conninfo(), MigrationScript(1, "", FirstOnes(2)), stop_at_errors);
    EXPECT_EQ(is_done, !stop_at_errors);
    EXPECT_THAT(printed, HasSubstr("migration 0001_create_one is to be applied to a schema of "
                                   "version 0"));
    EXPECT_EQ(StateOf(conninfo()), before);
    EXPECT_EQ(Value("SELECT count(*) FROM two"), "1");
  }
}

TEST_F(MigrationStateTest, TheScriptGoesOnWithWhatIsMissingUnlessToldToStop) {
  ASSERT_TRUE(Migrate(conninfo(), "", FirstOnes(2)).ok());
  (void)Psql(conninfo(), MigrationScript(1, "", kThree), /*stop_at_errors=*/false);
  EXPECT_TRUE(Status(kThree).is_up_to_date);
  EXPECT_EQ(Value("SELECT count(*) FROM two"), "1");
}

TEST_F(MigrationStateTest, TheScriptWaitsForAMigrateThatRuns) {
  RawSession migrate(conninfo());
  migrate.Sql(QueryText(Query::kMigrateLock));
  std::thread by_hand([&] {
    const auto [is_done, printed] = Psql(conninfo(), MigrationScript(1, "", kThree));
    EXPECT_TRUE(is_done) << printed;
  });
  EXPECT_TRUE(
      Eventually([&] { return Value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1"; }));
  EXPECT_EQ(*SchemaVersion(conninfo()), 0);
  migrate.Sql("SELECT pg_advisory_unlock_all()");
  by_hand.join();
  EXPECT_EQ(*SchemaVersion(conninfo()), 3);
}

TEST_F(MigrationStateTest, TheScriptLeavesNoLockBehind) {
  EXPECT_TRUE(Psql(conninfo(), MigrationScript(1, "", kThree) +
                                   "DO $$ BEGIN IF EXISTS (SELECT FROM pg_locks WHERE locktype = "
                                   "'advisory' AND pid = pg_backend_pid()) THEN RAISE EXCEPTION "
                                   "'locked'; END IF; END $$;\n")
                  .first);
}

TEST(MigrationScriptTest, QuotesTheRole) {
  EXPECT_THAT(MigrationScript(1, "we\"ird; DROP"), HasSubstr("TO \"we\"\"ird; DROP\";"));
  EXPECT_THAT(MigrationScript(1), Not(HasSubstr("GRANT")));
}

// The rights of the service's role.
class ServiceRoleTest : public MigrationStateTest {
 protected:
  ServiceRoleTest() { Sql("CREATE ROLE \"the service\""); }
  ~ServiceRoleTest() override { Sql("DROP OWNED BY \"the service\"; DROP ROLE \"the service\""); }

  bool May(const std::string& right, const std::string& table) const {
    return Value(absl::StrCat("SELECT has_table_privilege('the service', '", table, "', '", right,
                              "')")) == "t";
  }
  void ExpectWhatItNeedsAndNothingMore() const {
    for (const std::string right : {"SELECT", "INSERT", "UPDATE", "DELETE"}) {
      EXPECT_TRUE(May(right, "idempotency_record")) << right;
    }
    for (const std::string right : {"TRUNCATE", "REFERENCES", "TRIGGER"}) {
      EXPECT_FALSE(May(right, "idempotency_record")) << right;
    }
    EXPECT_TRUE(May("SELECT", "idempotency_migration"));
    for (const std::string right : {"INSERT", "UPDATE", "DELETE", "TRUNCATE"}) {
      EXPECT_FALSE(May(right, "idempotency_migration")) << right;
    }
    EXPECT_EQ(Value("SELECT has_schema_privilege('the service', 'public', 'CREATE')"), "f");
  }
};

TEST_F(ServiceRoleTest, GetsItsRightsFromMigrate) {
  ASSERT_TRUE(Migrate(conninfo(), "the service").ok());
  ExpectWhatItNeedsAndNothingMore();
  // Also when there is nothing to apply.
  Sql("DROP OWNED BY \"the service\"");
  EXPECT_FALSE(May("SELECT", "idempotency_record"));
  ASSERT_TRUE(Migrate(conninfo(), "the service").ok());
  ExpectWhatItNeedsAndNothingMore();
}

TEST_F(ServiceRoleTest, GetsTheSameRightsFromTheScript) {
  const auto [is_done, printed] = Psql(conninfo(), MigrationScript(1, "the service"));
  EXPECT_TRUE(is_done) << printed;
  ExpectWhatItNeedsAndNothingMore();
}

TEST_F(ServiceRoleTest, IsNamedWhenThereIsNone) {
  const absl::Status status = Migrate(conninfo(), "nobody at all");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nobody at all"));
  // What was applied stays.
  EXPECT_EQ(*SchemaVersion(conninfo()), kNewestSchema);
}

}  // namespace
}  // namespace idempotency
