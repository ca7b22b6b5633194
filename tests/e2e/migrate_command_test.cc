// `idempotencyd migrate up | status | print`, as an operator runs it.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/service_process.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MigrateCommand : public testing::Test {
 protected:
  // Runs `migrate` with these arguments on the database, to its end.
  std::string RunMigrate(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"migrate"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ServiceProcess process(arguments, {"IDEMPOTENCY_DATABASE_URL=" + database_.conninfo()});
    EXPECT_TRUE(process.AwaitEnd());
    output_ = process.Output();
    log_ = process.Log();
    return process.HowItEnded();
  }

  TestDatabase database_;
  std::string output_;
  std::string log_;
};

TEST_F(MigrateCommand, StatusTellsByItsExitCodeWhetherAllIsApplied) {
  EXPECT_EQ(RunMigrate({"status"}), "exit status 3") << log_;
  EXPECT_THAT(output_, AllOf(HasSubstr("0001"), HasSubstr("create_idempotency_record"),
                             HasSubstr("pending"), HasSubstr("migrate up")));
  EXPECT_EQ(RunMigrate({"up"}), "exit status 0") << log_;
  EXPECT_THAT(output_, HasSubstr(absl::StrCat("version ", kNewestSchema)));
  EXPECT_EQ(RunMigrate({"status"}), "exit status 0") << log_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("applied  20"), HasSubstr("Up to date"), Not(HasSubstr("pending"))));
}

TEST_F(MigrateCommand, WithoutAWordItMigrates) {
  EXPECT_EQ(RunMigrate({}), "exit status 0") << log_;
  EXPECT_EQ(RunMigrate({"status"}), "exit status 0") << log_;
}

TEST_F(MigrateCommand, ADifferenceHasAnExitCodeOfItsOwn) {
  ASSERT_EQ(RunMigrate({}), "exit status 0");
  ASSERT_TRUE(Exec(database_.conninfo(),
                   "UPDATE idempotency_migration SET checksum = '\\x00' WHERE version = 1")
                  .ok());
  EXPECT_EQ(RunMigrate({"status"}), "exit status 4");
  EXPECT_THAT(output_, HasSubstr("another name or content"));
  EXPECT_THAT(log_, HasSubstr("0001_create_idempotency_record"));
  EXPECT_EQ(RunMigrate({"up"}), "exit status 4");
}

TEST_F(MigrateCommand, ANewerSchemaHasThatExitCodeUnlessItIsForThisVersion) {
  ASSERT_EQ(RunMigrate({}), "exit status 0");
  ASSERT_TRUE(Exec(database_.conninfo(),
                   "INSERT INTO idempotency_migration VALUES (4711, 'from_the_future', '\\x00')")
                  .ok());
  EXPECT_EQ(RunMigrate({"status"}), "exit status 4");
  EXPECT_THAT(log_, AllOf(HasSubstr("4711"), HasSubstr(absl::StrCat("knows is ", kNewestSchema))));
  ASSERT_TRUE(Exec(database_.conninfo(),
                   absl::StrCat("UPDATE idempotency_migration SET oldest_server = ", kNewestSchema,
                                " WHERE version = 4711"))
                  .ok());
  EXPECT_EQ(RunMigrate({"status"}), "exit status 0") << log_;
  EXPECT_EQ(RunMigrate({"up"}), "exit status 0") << log_;
}

TEST_F(MigrateCommand, AnUnreachableDatabaseIsAFailure) {
  ServiceProcess process({"migrate", "status", "--database-url=host=127.0.0.1 port=1 user=u"});
  ASSERT_TRUE(process.AwaitEnd());
  EXPECT_EQ(process.HowItEnded(), "exit status 1");
}

TEST_F(MigrateCommand, PrintNeedsNoDatabase) {
  ServiceProcess process({"migrate", "print", "--grant-to=service"});
  ASSERT_TRUE(process.AwaitEnd());
  EXPECT_EQ(process.HowItEnded(), "exit status 0") << process.Log();
  EXPECT_EQ(process.Output(), MigrationScript(1, "service"));
}

TEST_F(MigrateCommand, PrintGoesFromOneOfTheMigrations) {
  EXPECT_EQ(RunMigrate({"print", absl::StrCat("--from=", kNewestSchema)}), "exit status 0") << log_;
  EXPECT_EQ(output_, MigrationScript(kNewestSchema));
  for (const int from : {0, -1, kNewestSchema + 1}) {
    EXPECT_EQ(RunMigrate({"print", absl::StrCat("--from=", from)}), "exit status 2");
    EXPECT_THAT(log_, HasSubstr("--from"));
  }
  EXPECT_EQ(RunMigrate({"print", "--from=x"}), "exit status 2");
}

TEST_F(MigrateCommand, StatusGrantsNothing) {
  EXPECT_EQ(RunMigrate({"status", "--grant-to=service"}), "exit status 2");
  EXPECT_THAT(log_, HasSubstr("--grant-to"));
}

}  // namespace
}  // namespace idempotency
