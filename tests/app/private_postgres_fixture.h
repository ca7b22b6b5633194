// What the tests of PrivatePostgres share: a scratch directory, processes that end as if killed.
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "gtest/gtest.h"
#include "server/app/postmaster_file.h"
#include "server/app/private_postgres.h"

namespace idempotency {

using PostgresPtr = std::unique_ptr<PrivatePostgres>;

// A temporary directory that other users may pass through, as /var/lib.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    chmod(path_.c_str(), 0755);
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/idempotencyd-test-XXXXXX";
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Runs `body` in a forked process that then ends without any destructor, as if killed. Returns its
// exit status.
inline int InForkedProcess(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int status = body();
    fflush(nullptr);
    _exit(status);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

class PrivatePostgresTest : public ::testing::Test {
 protected:
  // A test that failed half-way may have left its server running.
  void TearDown() override {
    const std::string data = Directory() + "/data";
    const std::optional<PostmasterFile> file = ReadPostmasterFile(data);
    if (!file.has_value()) return;
    const std::unique_ptr<Process> server = FindPostmaster(*file, data);
    if (server == nullptr) return;
    server->Signal(SIGQUIT);
    EXPECT_TRUE(server->WaitFor(absl::Seconds(60)));
  }

  std::string Directory() const { return scratch_.path() + "/state"; }

  PrivatePostgresOptions Options() const {
    return {.directory = Directory(), .settings = {{"fsync", "off"}}};
  }

  PostgresPtr StartOrFail() const {
    absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
    EXPECT_TRUE(postgres.ok()) << postgres.status();
    return postgres.ok() ? *std::move(postgres) : nullptr;
  }

  // Starts a server from a process that then ends without stopping it.
  void LeaveServerBehind() const {
    ASSERT_EQ(InForkedProcess([this] {
                absl::StatusOr<PostgresPtr> postgres = PrivatePostgres::Start(Options());
                // Leaked: _exit runs no destructor of it either way.
                return postgres.ok() ? (static_cast<void>(postgres->release()), 0) : 1;
              }),
              0);
  }

  ScratchDirectory scratch_;
};

}  // namespace idempotency
