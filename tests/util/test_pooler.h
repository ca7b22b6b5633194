// PgBouncer before a test's database.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "server/app/child_process.h"
#include "tests/util/test_postgres.h"

namespace idempotency {

// Runs from construction to destruction, and dies with the test binary. Lets everybody in, as the
// server's superuser. For one thread at a time. What fails ends the test binary with a message.
class TestPooler {
 public:
  // Before that server; `pool_mode` is PgBouncer's: session, transaction or statement.
  TestPooler(TestPostgres& postgres, absl::string_view database, absl::string_view pool_mode);
  ~TestPooler();
  TestPooler(const TestPooler&) = delete;
  TestPooler& operator=(const TestPooler&) = delete;

  // For connections through the pooler to the database.
  const std::string& conninfo() const { return conninfo_; }

  // All connections through it end; a new one is let in at once.
  void Restart();

 private:
  void Launch();

  const std::string directory_;
  std::string conninfo_;
  std::unique_ptr<Process> process_;
};

}  // namespace idempotency
