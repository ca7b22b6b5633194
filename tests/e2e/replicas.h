// A migrated database of a test's own with replicas on it, in this process or as processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/app/replica.h"
#include "server/app/settings.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "tests/e2e/client.h"
#include "tests/e2e/service_process.h"
#include "tests/util/test_postgres.h"

namespace idempotency {

// An empty database with the present schema, on SharedPostgres().
class MigratedDatabase {
 public:
  MigratedDatabase();
  const std::string& conninfo() const { return database_.conninfo(); }

 private:
  TestDatabase database_;
};

// Settings for replicas in this process: as ServeArguments'.
Settings TestSettings(const std::string& conninfo);

// A replica in this process and a client of it. Its log goes nowhere.
class LocalReplica {
 public:
  // Returns when it serves.
  explicit LocalReplica(const Settings& settings);

  Client& client() { return *client_; }
  Replica& replica() { return *replica_; }
  Metrics& metrics() { return metrics_; }

 private:
  Metrics metrics_;
  std::ostringstream log_output_;
  Log log_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Client> client_;
};

// Replicas as processes on one database, each with a client.
class ReplicaProcesses {
 public:
  // Returns when all serve.
  ReplicaProcesses(int count, const std::string& conninfo,
                   const std::vector<std::string>& more_arguments = {});

  int count() const { return static_cast<int>(processes_.size()); }
  ServiceProcess& process(int i) { return *processes_[static_cast<size_t>(i)]; }
  Client& client(int i) { return *clients_[static_cast<size_t>(i)]; }
  const std::string& address(int i) const { return addresses_[static_cast<size_t>(i)]; }
  // All logs together.
  std::string Logs() const;

 private:
  std::vector<std::unique_ptr<ServiceProcess>> processes_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace idempotency
