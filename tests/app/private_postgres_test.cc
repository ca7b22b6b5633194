#include "server/app/private_postgres.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/loopback_port.h"
#include "tests/app/private_postgres_fixture.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(PrivatePostgresTest, EphemeralAnswersAndLeavesNothing) {
  absl::StatusOr<PostgresPtr> postgres =
      PrivatePostgres::Start({.ephemeral = true, .settings = {{"fsync", "off"}}});
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  EXPECT_EQ(*QueryValue((*postgres)->ConnectionString(), "SELECT 1"), "1");
  const std::string directory = (*postgres)->directory();
  const pid_t pid = (*postgres)->Pid();
  EXPECT_TRUE((*postgres)->Stop().ok());
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_FALSE(Process::Find(pid).ok());
}

TEST_F(PrivatePostgresTest, EphemeralServerDiesWithItsKilledOwner) {
  int pids[2];
  ASSERT_EQ(pipe(pids), 0);
  ASSERT_EQ(InForkedProcess([&pids] {
              absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start({.ephemeral = true});
              if (!postgres.ok()) return 1;
              const pid_t pid = (*postgres)->Pid();
              if (write(pids[1], &pid, sizeof(pid)) != sizeof(pid)) return 1;
              const std::string directory = (*postgres)->directory() + "\n";
              if (write(pids[1], directory.data(), directory.size()) < 0) return 1;
              kill(getpid(), SIGKILL);
              return 1;
            }),
            1000 + SIGKILL);
  pid_t pid = 0;
  ASSERT_EQ(read(pids[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  std::string directory(4096, '\0');
  directory.resize(read(pids[0], directory.data(), directory.size()));
  if (auto process = Process::Find(pid); process.ok()) {
    EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
  }
  fs::remove_all(directory.substr(0, directory.find('\n')));
  close(pids[0]);
  close(pids[1]);
}

TEST_F(PrivatePostgresTest, SettingsReachTheServerAndTheListenAddressStaysLoopback) {
  PrivatePostgresOptions options = Options();
  options.settings = {{"work_mem", "5MB"}, {"listen_addresses", "*"}};
  absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(options);
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  const std::string conninfo = (*postgres)->ConnectionString();
  EXPECT_EQ(*QueryValue(conninfo, "SHOW work_mem"), "5MB");
  EXPECT_EQ(*QueryValue(conninfo, "SHOW listen_addresses"), "127.0.0.1");
  EXPECT_EQ(*QueryValue(conninfo, "SHOW unix_socket_directories"), "");
  EXPECT_EQ(*QueryValue(conninfo, "SHOW fsync"), "on");
  EXPECT_EQ(*QueryValue(conninfo, "SHOW server_encoding"), "UTF8");
}

TEST_F(PrivatePostgresTest, PasswordIsDemandedAndKeptInPrivateFile) {
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_EQ(ModeOf(Directory() + "/pgpass"), 0600u);
  const std::string entry = ReadFile(Directory() + "/pgpass");
  const std::string password = entry.substr(entry.rfind(':') + 1, 48);
  EXPECT_THAT(postgres->ConnectionString(), Not(HasSubstr(password)));
  const std::string no_password =
      "host=127.0.0.1 port=" + std::to_string(postgres->port()) +
      " user=idempotencyd dbname=postgres password=wrong sslmode=disable";
  EXPECT_EQ(Exec(no_password, "SELECT 1").code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(fs::exists(Directory() + "/initial-password"));
}

TEST_F(PrivatePostgresTest, PasswordInTheEnvironmentIsNoHindrance) {
  setenv("PGPASSWORD", "of another server", 1);
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
  unsetenv("PGPASSWORD");
}

TEST_F(PrivatePostgresTest, DataAndPortAreKeptBetweenRuns) {
  int port = 0;
  {
    const PostgresPtr postgres = StartOrFail();
    ASSERT_NE(postgres, nullptr);
    port = postgres->port();
    ASSERT_TRUE(
        Exec(postgres->ConnectionString(), "CREATE TABLE t (a int); INSERT INTO t VALUES (7)")
            .ok());
  }
  ASSERT_TRUE(CanListen(port)) << "the first server still runs";
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_FALSE(postgres->reused());
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT a FROM t"), "7");
  EXPECT_EQ(postgres->port(), port);
}

TEST_F(PrivatePostgresTest, AnotherPortIsTakenWhenTheLastOneIsBusy) {
  int port = 0;
  {
    const PostgresPtr postgres = StartOrFail();
    ASSERT_NE(postgres, nullptr);
    port = postgres->port();
  }
  const ScratchDirectory other;
  fs::create_directory(other.path() + "/state");
  std::ofstream(other.path() + "/state/port") << port;
  absl::StatusOr<PostgresPtr> holder = PrivatePostgres::Start(
      {.directory = other.path() + "/state", .settings = {{"fsync", "off"}}});
  ASSERT_TRUE(holder.ok()) << holder.status();
  ASSERT_EQ((*holder)->port(), port);
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_NE(postgres->port(), port);
}

TEST_F(PrivatePostgresTest, ServerOfKilledOwnerIsUsedAgainAndStoppedAtTheEnd) {
  LeaveServerBehind();
  PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_TRUE(postgres->reused());
  const pid_t pid = postgres->Pid();
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
  const int port = postgres->port();
  EXPECT_TRUE(postgres->Stop().ok());
  EXPECT_TRUE(CanListen(port));
  const absl::StatusOr<std::unique_ptr<Process>> process = Process::Find(pid);
  EXPECT_TRUE(!process.ok() || !(*process)->Running());
}

TEST_F(PrivatePostgresTest, ServerLeftRunningOnPurposeIsUsedAgain) {
  PostgresPtr first = StartOrFail();
  ASSERT_NE(first, nullptr);
  const pid_t pid = first->Pid();
  first->LeaveRunning();
  first.reset();
  const PostgresPtr second = StartOrFail();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->reused());
  EXPECT_EQ(second->Pid(), pid);
}

TEST_F(PrivatePostgresTest, ReusedServerRestarts) {
  LeaveServerBehind();
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  const pid_t pid = postgres->Pid();
  ASSERT_TRUE(postgres->Restart().ok());
  EXPECT_NE(postgres->Pid(), pid);
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
}

TEST_F(PrivatePostgresTest, SecondUserOfDirectoryIsRefusedAndToldWhoHasIt) {
  const PostgresPtr first = StartOrFail();
  ASSERT_NE(first, nullptr);
  const absl::StatusOr<PostgresPtr> second = PrivatePostgres::Start(Options());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(second.status()), HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(Message(second.status()), HasSubstr(Directory()));
  EXPECT_EQ(*QueryValue(first->ConnectionString(), "SELECT 1"), "1");
}

TEST_F(PrivatePostgresTest, RestartKeepsPortAndData) {
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  const std::string conninfo = postgres->ConnectionString();
  ASSERT_TRUE(Exec(conninfo, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").ok());
  const absl::Status restarted = postgres->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  EXPECT_EQ(*QueryValue(conninfo, "SELECT a FROM t"), "7");
}

TEST_F(PrivatePostgresTest, CommittedDataSurvivesHardKill) {
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  const std::string conninfo = postgres->ConnectionString();
  ASSERT_TRUE(Exec(conninfo, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").ok());
  postgres->KillHard();
  EXPECT_FALSE(postgres->Running());
  EXPECT_FALSE(Exec(conninfo, "SELECT 1").ok());
  const absl::Status restarted = postgres->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  EXPECT_EQ(*QueryValue(conninfo, "SELECT a FROM t"), "7");
}

TEST_F(PrivatePostgresTest, HardKilledServerOfKilledOwnerStartsAgain) {
  LeaveServerBehind();
  {
    const PostgresPtr postgres = StartOrFail();
    ASSERT_NE(postgres, nullptr);
    postgres->KillHard();
  }
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_FALSE(postgres->reused());
}

TEST_F(PrivatePostgresTest, ForkedCopyDoesNotStopTheServer) {
  const PostgresPtr postgres = StartOrFail();
  ASSERT_NE(postgres, nullptr);
  EXPECT_EQ(InForkedProcess([&postgres] {
              PostgresPtr& copy = const_cast<PostgresPtr&>(postgres);
              copy.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(*QueryValue(postgres->ConnectionString(), "SELECT 1"), "1");
}

}  // namespace
}  // namespace idempotency
