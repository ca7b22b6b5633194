// What the tests of Durability::kReplicated share: a primary with two standbys, of which one has to
// confirm each commit, a migrated database, and stores on it that share a circuit.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "server/base/metrics.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/store.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/test_replication.h"

namespace idempotency {

class ReplicatedFixture : public StoreCalls {
 protected:
  ReplicatedFixture();
  // The servers are as the next test wants them.
  ~ReplicatedFixture() override;

  // Started with the first test of the binary.
  static TestReplication& Servers();
  static void FreezeStandbys();
  static void ThawStandbys();

  // No timer fires.
  PostgresStoreOptions PatientOptions() const;
  // A commit that no standby confirms is given up soon.
  PostgresStoreOptions HastyOptions() const;
  std::unique_ptr<Store> NewStore(const PostgresStoreOptions& options);
  StoreFactory NewFactory(const PostgresStoreOptions& options);
  Metrics& metrics() { return metrics_; }
  const std::string& conninfo() const { return conninfo_; }

  static absl::StatusOr<BeginResult> BeginOn(Store& store, absl::string_view key, int attempt = 1);
  static absl::StatusOr<OwnerResult> CompleteOn(Store& store, absl::string_view key,
                                                int attempt = 1);
  static absl::StatusOr<LookupResult> LookupOn(Store& store, absl::string_view key);

  // SQL that waits for no standby.
  void Admin(const std::string& sql);
  std::string AdminValue(const std::string& sql);
  // Processes of the service in this database whose commit waits for a standby.
  int CountWaiting();
  // Waits until there is one, and returns its process id.
  std::string AwaitWaiting(absl::string_view not_pid = "");
  // An attempt of number 1 at work, which is visible and on no standby. REQUIRES: frozen.
  void InsertUnreplicated(absl::string_view key);
  // Makes the call with a patient store while the standbys are frozen: it must not come back before
  // its transaction waits for a standby, and then only when that is back.
  void ExpectWaitsForStandby(const std::function<void(Store&)>& call);

 private:
  const std::string conninfo_;
  Metrics metrics_;
};

}  // namespace idempotency
