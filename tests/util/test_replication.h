// A real primary with real standbys that stream from it, for tests.
//
// Everything here is for tests: what fails ends the test binary with a message.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/app/child_process.h"
#include "server/app/postgres_installation.h"
#include "server/app/state_directory.h"
#include "tests/util/test_postgres.h"

namespace idempotency {

// A hot standby: a copy of a primary that follows it, under its name (application_name, as
// synchronous_standby_names knows it). It dies with the test binary. For one thread at a time.
class TestStandby {
 public:
  // Returns when it streams.
  TestStandby(TestPostgres& primary, const std::string& name);
  ~TestStandby();
  TestStandby(const TestStandby&) = delete;
  TestStandby& operator=(const TestStandby&) = delete;

  int port() const { return port_; }
  // As the primary's, with its password.
  std::string ConnectionString(absl::string_view database = "postgres") const;

  // From here on it confirms nothing that the primary writes, as if its machine hung.
  void Freeze();
  void Thaw();
  // Receives nothing more from its primary, and returns how far it has come (a place in the WAL).
  std::string Detach();
  // Returns when it has come as far.
  void AwaitReceived(const std::string& place);
  // Returns when it takes writes.
  void Promote();
  // Follows another primary instead, and returns when it streams from it. REQUIRES: detached before
  // the other one was promoted, which had come as far: on the old primary's way there is no return.
  void Follow(const TestStandby& primary);

 private:
  void Copy(const std::string& primary_conninfo);
  void Launch();
  void AwaitStreaming(const std::string& primary);
  // A connection string of the replication protocol, password included.
  std::string PrimaryConninfo(int port) const;

  TestPostgres& primary_;
  const std::string name_;
  const std::string password_;
  const PostgresInstallation installation_;
  const std::optional<ProcessUser> user_;
  const std::unique_ptr<StateDirectory> state_;
  int port_ = 0;
  std::unique_ptr<Process> process_;
  pid_t frozen_ = 0;
};

// A primary and its standbys, "standby_1" and so on. Commits wait for one of them.
class TestReplication {
 public:
  explicit TestReplication(int standbys);

  TestPostgres& primary() { return primary_; }
  // From 1.
  TestStandby& standby(int number) { return *standbys_[static_cast<size_t>(number) - 1]; }

  // Sets a setting of the primary, or takes it back. From the return on every new session has it,
  // and every other one sees it before its next statement.
  void AlterSystem(const std::string& setting, const std::string& value);
  void ResetSystem(const std::string& setting);
  // The primary's, for SQL that waits for no standby.
  std::string AdminConninfo(absl::string_view database = "postgres");
  // All standbys work and are waited for again, and nobody waits for them.
  void Recover();

 private:
  void Reload();

  TestPostgres primary_;
  std::vector<std::unique_ptr<TestStandby>> standbys_;
};

}  // namespace idempotency
