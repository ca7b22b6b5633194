#include "server/store/postgres/migrate.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/metrics.h"
#include "server/store/postgres/postgres_store.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

class MigrateTest : public ::testing::Test {
 protected:
  const std::string& conninfo() const { return database_.conninfo(); }
  void Sql(const std::string& sql) {
    const absl::Status status = Exec(conninfo(), sql);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string Value(const std::string& sql) {
    const absl::StatusOr<std::string> value = QueryValue(conninfo(), sql);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or("");
  }

  TestDatabase database_;
};

TEST(MigrationsTest, ReachTheNewestVersionThatTheServerTakes) {
  ASSERT_FALSE(EmbeddedMigrations().empty());
  EXPECT_EQ(EmbeddedMigrations().back().version, kNewestSchema);
}

TEST_F(MigrateTest, VersionIsZeroWhenTheDatabaseIsEmpty) {
  const auto version = SchemaVersion(conninfo());
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(*version, 0);
}

TEST_F(MigrateTest, ReachesTheNewestVersion) {
  ASSERT_TRUE(Migrate(conninfo()).ok());
  const auto version = SchemaVersion(conninfo());
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(*version, kNewestSchema);
  EXPECT_EQ(Value("SELECT count(*) FROM idempotency_record"), "0");
}

// What a rolling upgrade meets: servers of this program on a schema that is migrated under them.
TEST_F(MigrateTest, ServersWorkWithTheOldestSchemaOfTheirRangeAndWhileItIsMigrated) {
  ASSERT_TRUE(Migrate(conninfo(), "", EmbeddedMigrations().subspan(0, kOldestSchema)).ok());
  Metrics metrics;
  PostgresStoreOptions options;
  options.conninfo = conninfo();
  const std::unique_ptr<Store> store = MakePostgresStoreFactory(options, &metrics)();
  EXPECT_TRUE(store->Check().ok()) << store->Check();
  ASSERT_TRUE(Migrate(conninfo()).ok());
  EXPECT_TRUE(store->Check().ok()) << store->Check();
  EXPECT_EQ(Value("SELECT 'fillfactor=95' = ANY (reloptions) FROM pg_class "
                  "WHERE oid = 'idempotency_record'::regclass"),
            "t");
}

TEST_F(MigrateTest, NotesNameAndChecksumOfWhatItApplied) {
  ASSERT_TRUE(Migrate(conninfo()).ok());
  EXPECT_EQ(Value("SELECT name FROM idempotency_migration WHERE version = 1"),
            "create_idempotency_record");
  EXPECT_EQ(Value("SELECT octet_length(checksum) FROM idempotency_migration WHERE version = 1"),
            "32");
}

TEST_F(MigrateTest, ChangesNothingWhenRepeated) {
  ASSERT_TRUE(Migrate(conninfo()).ok());
  const std::string applied_at = Value("SELECT max(applied_at) FROM idempotency_migration");
  ASSERT_TRUE(Migrate(conninfo()).ok());
  EXPECT_EQ(Value("SELECT max(applied_at) FROM idempotency_migration"), applied_at);
}

TEST_F(MigrateTest, AppliesEachOnceWhenRunInParallel) {
  std::vector<absl::Status> statuses(8);
  std::vector<std::thread> threads;
  for (absl::Status& status : statuses) {
    threads.emplace_back([this, &status] { status = Migrate(conninfo()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Value("SELECT count(*) FROM idempotency_migration"),
            absl::StrCat(EmbeddedMigrations().size()));
}

TEST_F(MigrateTest, NamesBothVersionsWhenTheSchemaIsNewer) {
  ASSERT_TRUE(Migrate(conninfo()).ok());
  Sql("INSERT INTO idempotency_migration VALUES (4711, 'from_the_future', '\\x00')");
  const absl::Status status = Migrate(conninfo());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("4711"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(absl::StrCat("knows is ", kNewestSchema)),
            absl::string_view::npos)
      << status;
}

TEST_F(MigrateTest, NamesTheMigrationWhenItsChecksumDiffers) {
  ASSERT_TRUE(Migrate(conninfo()).ok());
  Sql("UPDATE idempotency_migration SET checksum = '\\x00' WHERE version = 1");
  const absl::Status status = Migrate(conninfo());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("0001_create_idempotency_record"), absl::string_view::npos)
      << status;
}

TEST_F(MigrateTest, LeavesNothingBehindWhenAMigrationFails) {
  Sql("CREATE TABLE idempotency_record (in_the_way int)");
  const absl::Status status = Migrate(conninfo());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("0001_create_idempotency_record"), absl::string_view::npos)
      << status;
  EXPECT_EQ(*SchemaVersion(conninfo()), 0);

  Sql("DROP TABLE idempotency_record");
  EXPECT_TRUE(Migrate(conninfo()).ok());
}

TEST_F(MigrateTest, IsUnavailableWhenTheDatabaseIsReadOnly) {
  Sql(absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo()),
                   " SET default_transaction_read_only = on"));
  EXPECT_EQ(Migrate(conninfo()).code(), absl::StatusCode::kUnavailable);
}

TEST(MigrateFaultTest, IsUnavailableWhenNobodyListens) {
  EXPECT_EQ(Migrate("host=/nonexistent dbname=x").code(), absl::StatusCode::kUnavailable);
}

TEST(MigrateFaultTest, DoesNotRepeatAConnectionStringThatCannotBeParsed) {
  const absl::Status status = Migrate("postgres://user:secret@host:port:port/");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message().find("secret"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace idempotency
