#include "tests/util/test_postgres.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using ::testing::HasSubstr;

TEST(TestPostgres, EachDatabaseIsItsOwn) {
  const TestDatabase first;
  const TestDatabase second;
  ASSERT_TRUE(Exec(first.conninfo(), "CREATE TABLE t (a int)").ok());
  EXPECT_FALSE(Exec(second.conninfo(), "SELECT FROM t").ok());
}

TEST(TestPostgres, DatabaseIsCopyOfItsTemplate) {
  const TestDatabase original;
  ASSERT_TRUE(Exec(original.conninfo(), "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").ok());
  const TestDatabase copy(original.name());
  EXPECT_EQ(*QueryValue(copy.conninfo(), "SELECT a FROM t"), "7");
}

TEST(TestPostgres, DatabaseIsUtf8WithBytewiseOrder) {
  const TestDatabase database;
  EXPECT_EQ(*QueryValue(database.conninfo(), "SHOW server_encoding"), "UTF8");
  EXPECT_EQ(*QueryValue(database.conninfo(),
                        "SELECT datcollate FROM pg_database WHERE datname = current_database()"),
            "C.UTF-8");
}

TEST(TestPostgres, DroppedDatabaseIsGone) {
  std::string conninfo;
  {
    const TestDatabase database;
    conninfo = database.conninfo();
  }
  EXPECT_EQ(Exec(conninfo, "SELECT 1").code(), absl::StatusCode::kUnavailable);
}

TEST(TestPostgres, CommitsWaitForTheWalThoughNotForTheDisk) {
  const std::string conninfo = SharedPostgres().server().ConnectionString();
  EXPECT_EQ(*QueryValue(conninfo, "SHOW synchronous_commit"), "on");
  EXPECT_EQ(*QueryValue(conninfo, "SHOW fsync"), "off");
}

TEST(TestPostgres, FailedSqlTellsItsSqlstate) {
  const TestDatabase database;
  const absl::Status status = Exec(database.conninfo(), "SELECT 1/0");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(std::string(status.message()), HasSubstr("22012: "));
}

TEST(TestPostgres, QueryWithoutRowIsNotFound) {
  const TestDatabase database;
  EXPECT_EQ(QueryValue(database.conninfo(), "SELECT 1 WHERE false").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace idempotency
