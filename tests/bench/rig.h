// What a run of the benchmark works with: a private PostgreSQL with both schemas, one server under
// test at a time, the load generator and pgbench, each a process of its own.
//
// Every measurement starts on empty tables and with a fresh server, so that none inherits another's
// memory or size.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/app/child_process.h"
#include "server/app/private_postgres.h"

namespace idempotency::bench {

enum class Contestant { kOurs, kPlain, kNoop };
const char* ContestantName(Contestant contestant);

struct RigOptions {
  // Directory of the benchmark's programs, and the service's program.
  std::string programs;
  std::string server;
  // Every fsync of PostgreSQL takes 2 ms longer.
  bool slow_disk = false;
  // Added to the service's arguments.
  std::vector<std::string> server_flags;
};

struct TableSize {
  int64_t heap_bytes = 0;  // with its maps and TOAST
  int64_t index_bytes = 0;
};

// A server under test. Destroying it kills it.
class ServerUnderTest {
 public:
  ServerUnderTest(std::unique_ptr<Process> process, int port)
      : process_(std::move(process)), port_(port) {}
  ~ServerUnderTest();
  pid_t pid() const { return process_->pid(); }
  std::string address() const;

 private:
  const std::unique_ptr<Process> process_;
  const int port_;
};

// Not thread-safe, but for Run.
class Rig {
 public:
  // Starts PostgreSQL and makes both tables.
  static absl::StatusOr<std::unique_ptr<Rig>> Start(const RigOptions& options);
  ~Rig();

  // Empties both tables and writes a checkpoint.
  absl::Status Reset();
  absl::StatusOr<std::unique_ptr<ServerUnderTest>> StartServer(Contestant contestant);
  // Runs the load generator against a server. Its JSON, also when answers were not as expected.
  absl::StatusOr<nlohmann::json> Load(const ServerUnderTest& server,
                                      const std::vector<std::string>& arguments);
  // Runs one of the benchmark's programs, which prints one line of JSON, also when answers were not
  // as expected. May be called by several threads, each for another program.
  absl::StatusOr<nlohmann::json> Run(const std::string& program,
                                     const std::vector<std::string>& arguments);
  // Reset, StartServer, Load.
  absl::StatusOr<nlohmann::json> Measure(Contestant contestant,
                                         const std::vector<std::string>& arguments);
  // Transactions a second of pgbench's single-row INSERT, 16 clients; `protocol` is pgbench's
  // (simple, prepared).
  absl::StatusOr<double> Pgbench(const std::string& protocol, int seconds);

  // The greatest share of the machine's processors that processes took, during a load, which do not
  // belong to the benchmark.
  double greatest_foreign_share() const { return greatest_foreign_share_; }

  absl::Status VacuumAnalyze(Contestant contestant);
  absl::StatusOr<TableSize> SizeOf(Contestant contestant);
  absl::StatusOr<int64_t> CountRows(Contestant contestant);
  // One value.
  absl::StatusOr<std::string> Query(const std::string& sql);

 private:
  explicit Rig(const RigOptions& options) : options_(options) {}
  absl::Status MakeDirectory();
  absl::StatusOr<std::string> MakeSlowPrograms();

  const RigOptions options_;
  std::string directory_;  // temporary
  std::unique_ptr<PrivatePostgres> postgres_;
  double greatest_foreign_share_ = 0;
};

}  // namespace idempotency::bench
