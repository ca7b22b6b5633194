// PostgresStore on a real PostgreSQL, as a subject of the store suites.
#pragma once

#include <memory>
#include <string>

#include "server/base/metrics.h"
#include "server/store/postgres/postgres_store.h"
#include "tests/store/store_conformance.h"
#include "tests/util/test_clock.h"
#include "tests/util/test_postgres.h"

namespace idempotency {

// A migrated database whose clock the test moves. All subjects of a test binary share one database,
// one after the other: a new subject finds it empty and its clock where every one starts.
class PostgresSubject : public StoreSubject {
 public:
  explicit PostgresSubject(const Policy& policy);

  std::unique_ptr<Store> Connect() override;
  absl::Time Now() override;
  void AdvanceClock(absl::Duration by) override;
  void JumpClock(absl::Duration by) override;

  // Lets the stores of Connect know the guard's row as it is, as a replica's clock watch does.
  void Look();
  // As Connect, with other options; conninfo and policy are the subject's.
  std::unique_ptr<Store> ConnectWith(PostgresStoreOptions options);
  // For SQL beside the service, with the real clock.
  const std::string& conninfo() const;

 private:
  const Policy policy_;
  Metrics metrics_;
  StoreFactory factory_;
  std::unique_ptr<Store> watch_;
};

}  // namespace idempotency
