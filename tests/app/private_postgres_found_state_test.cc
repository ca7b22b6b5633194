// What PrivatePostgres finds when it starts: leftovers, foreign data, missing programs, other
// users.
#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/private_postgres.h"
#include "tests/app/private_postgres_fixture.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

TEST_F(PrivatePostgresTest, PidFileThatNamesAnotherProcessIsNoProblem) {
  StartOrFail();
  // Our own id: a process that is alive and no server.
  const std::string pid_file = Directory() + "/data/postmaster.pid";
  std::ofstream(pid_file) << getpid() << "\n"
                          << Directory() << "/data\n1700000000\n5432\n\n127.0.0.1\n";
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_FALSE(postgres->reused());
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
}

TEST_F(PrivatePostgresTest, PidFileThatNamesNoProcessIsNoProblem) {
  StartOrFail();
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  std::ofstream(Directory() + "/data/postmaster.pid")
      << gone << "\n"
      << Directory() << "/data\n1700000000\n5432\n\n127.0.0.1\n";
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
}

TEST_F(PrivatePostgresTest, HalfMadeDataDirectoryIsMadeAnew) {
  fs::create_directories(Directory() + "/data.new/base");
  std::ofstream(Directory() + "/data.new/PG_VERSION") << "15\n";
  std::ofstream(Directory() + "/pgpass") << "*:*:*:idempotencyd:of the attempt that was killed\n";
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
  EXPECT_FALSE(fs::exists(Directory() + "/data.new"));
}

TEST_F(PrivatePostgresTest, ForeignDataIsRefusedAndLeftAlone) {
  fs::create_directories(Directory() + "/data");
  std::ofstream(Directory() + "/data/letter") << "dear";
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(Directory() + "/data/letter"), "dear");
}

TEST_F(PrivatePostgresTest, LostPasswordIsExplained) {
  StartOrFail();
  fs::remove(Directory() + "/pgpass");
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(postgres.status()), HasSubstr("pgpass"));
}

TEST_F(PrivatePostgresTest, MissingServerProgramsAreExplained) {
  PrivatePostgresOptions options = Options();
  options.bin_directory = scratch_.path();
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(options);
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(postgres.status()), HasSubstr(scratch_.path()));
}

TEST_F(PrivatePostgresTest, DataOfVersionThatIsNotInstalledSaysWhatToInstall) {
  StartOrFail();
  std::ofstream(Directory() + "/data/PG_VERSION") << "14\n";
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(postgres.status()), HasSubstr("apt-get install postgresql-14"));
}

TEST_F(PrivatePostgresTest, FailedStartShowsTheServersLastWords) {
  PrivatePostgresOptions options = Options();
  options.settings.push_back({"no_such_setting", "1"});
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(options);
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(postgres.status()), HasSubstr("no_such_setting"));
  EXPECT_THAT(Message(postgres.status()), HasSubstr("postgres.log"));
}

TEST_F(PrivatePostgresTest, DirectoryThatTheServersUserCannotReachIsExplainedWhenRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  chmod(scratch_.path().c_str(), 0700);
  const absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
  EXPECT_EQ(postgres.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(postgres.status()), HasSubstr("Permission denied"));
  EXPECT_THAT(Message(postgres.status()), HasSubstr("must let the user postgres pass"));
}

TEST_F(PrivatePostgresTest, ServerRunsUnprivilegedWhenRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  const absl::StatusOr<ProcessUser> user = FindUser("postgres");
  ASSERT_TRUE(user.ok());
  struct stat info {};
  ASSERT_EQ(stat(("/proc/" + std::to_string(postgres->Pid())).c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, user->uid);
  EXPECT_EQ(*DefaultDataDirectory(), "/var/lib/idempotencyd/dev");
}

// What an ordinary user meets: no directory given, nothing in the environment but HOME. Returns the
// line that failed.
int WalkAsOrdinaryUser(const std::string& home) {
  const absl::StatusOr<std::string> directory = DefaultDataDirectory();
  if (!directory.ok() || *directory != home + "/.local/state/idempotencyd/dev") return __LINE__;
  for (const bool first : {true, false}) {
    absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start({});
    if (!postgres.ok()) {
      std::cerr << postgres.status() << "\n";
      return __LINE__;
    }
    const std::string conninfo = (*postgres)->ConnectionString();
    if (first && !Exec(conninfo, "CREATE TABLE t AS SELECT 7 AS a").ok()) return __LINE__;
    if (QueryValue(conninfo, "SELECT a FROM t").value_or("") != "7") return __LINE__;
    if (ModeOf(*directory) != 0700) return __LINE__;
    if (!(*postgres)->Stop().ok()) return __LINE__;
    // Now a process id of our own user: PostgreSQL itself would take it for a running server.
    std::ofstream(*directory + "/data/postmaster.pid")
        << getpid() << "\n"
        << *directory << "/data\n1700000000\n5432\n\n127.0.0.1\n";
  }
  return 0;
}

TEST_F(PrivatePostgresTest, OrdinaryUserNeedsNothingButHome) {
  const std::string home = scratch_.path() + "/home";
  fs::create_directory(home);
  const bool as_root = geteuid() == 0;
  if (as_root) {
    const absl::StatusOr<ProcessUser> nobody = FindUser("nobody");
    ASSERT_TRUE(nobody.ok()) << nobody.status();
    ASSERT_EQ(chown(home.c_str(), nobody->uid, nobody->gid), 0);
    EXPECT_EQ(InForkedProcess([&] {
                if (setgroups(0, nullptr) != 0 || setgid(nobody->gid) != 0) return 1;
                if (setuid(nobody->uid) != 0) return 1;
                setenv("HOME", home.c_str(), 1);
                unsetenv("XDG_STATE_HOME");
                return WalkAsOrdinaryUser(home) % 256;
              }),
              0);
  } else {
    EXPECT_EQ(InForkedProcess([&] {
                setenv("HOME", home.c_str(), 1);
                unsetenv("XDG_STATE_HOME");
                return WalkAsOrdinaryUser(home) % 256;
              }),
              0);
  }
}

TEST_F(PrivatePostgresTest, StateDirectoryFollowsXdgForOrdinaryUser) {
  EXPECT_EQ(InForkedProcess([] {
              if (geteuid() == 0 && setuid(65534) != 0) return 1;
              setenv("XDG_STATE_HOME", "/elsewhere", 1);
              if (DefaultDataDirectory().value_or("") != "/elsewhere/idempotencyd/dev") return 2;
              setenv("XDG_STATE_HOME", "relative/is/ignored", 1);
              setenv("HOME", "/home/jo", 1);
              return *DefaultDataDirectory() == "/home/jo/.local/state/idempotencyd/dev" ? 0 : 3;
            }),
            0);
}

}  // namespace
}  // namespace idempotency
