// What the tests of the PostgreSQL store share: a migrated database, a store on it, and a second
// way in for setting traps.
#pragma once

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/base/metrics.h"
#include "server/record/record.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/store.h"
#include "tests/util/test_postgres.h"

namespace idempotency {

// A session that stays open: holds locks and transactions against the store.
class RawSession {
 public:
  explicit RawSession(const std::string& conninfo);
  // Ends the session, and with it its transaction and locks.
  ~RawSession();
  RawSession(const RawSession&) = delete;
  RawSession& operator=(const RawSession&) = delete;

  // Fails the test when the SQL fails. Returns the first value of the last statement, if any.
  std::string Sql(const std::string& sql);
  // Sends SQL without waiting for it.
  void Send(const std::string& sql);
  // Whether what was sent has not been answered yet.
  bool IsBusy();

 private:
  PGconn* const connection_;
};

// Items of calls, all of merchant "m1".
class StoreCalls : public ::testing::Test {
 protected:
  static AttemptHash Attempt(int n);
  static BeginItem Request(absl::string_view key, int attempt = 1);
  static OwnerItem Completed(absl::string_view key, int attempt = 1, int32_t status_code = 201);
  static OwnerItem Failed(absl::string_view key, Disposition disposition, int attempt = 1);
  static OwnerItem Renewed(absl::string_view key, absl::Duration lease, int attempt = 1);
  static LookupItem LookupOf(absl::string_view key) { return {{"m1", std::string(key)}}; }
};

// While it lives, the clock guard's row is as if replicas had always been there and no clock had
// ever jumped: for tests by the real clock in which a lease is over or a record expires.
class WatchedClock {
 public:
  explicit WatchedClock(const std::string& conninfo);
  ~WatchedClock();

 private:
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

class PostgresFixture : public StoreCalls {
 protected:
  // Migrated once for a test binary; each test gets a copy.
  PostgresFixture();

  const std::string& conninfo() const { return database_.conninfo(); }
  PostgresStoreOptions Options() const;
  std::unique_ptr<Store> NewStore() { return NewStore(Options()); }
  std::unique_ptr<Store> NewStore(const PostgresStoreOptions& options);
  // The store that most tests use.
  Store& store() { return *store_; }
  Metrics& metrics() { return metrics_; }

  // Runs SQL as superuser; fails the test if that fails.
  void Sql(const std::string& sql);
  std::string Value(const std::string& sql);
  // As Value, through another database; "" when there is none.
  static std::string ServerValue(const std::string& sql);
  // The process id of the store's backend, once it has connected.
  std::string BackendPid();
  // Waits until a backend of the store waits for that kind of event (pg_stat_activity), and returns
  // its process id.
  std::string AwaitWaiting(absl::string_view wait_event_type, absl::string_view not_pid = "");
  void Terminate(const std::string& pid);
  // Lets nobody connect any more, or again. Present sessions go on.
  void AllowConnections(bool allow);

  BatchResults<BeginResult> Begin(const std::vector<BeginItem>& items);
  BatchResults<OwnerResult> Owner(const std::vector<OwnerItem>& items);
  absl::StatusOr<BeginResult> BeginOne(absl::string_view key, int attempt = 1);
  absl::StatusOr<OwnerResult> CompleteOne(absl::string_view key, int attempt = 1);

 private:
  TestDatabase database_;
  Metrics metrics_;
  std::unique_ptr<Store> store_;
};

// "key-0000" … so that the order of numbers is the order of keys.
std::string NumberedKey(size_t n);

template <typename Item>
std::vector<const Item*> PointersOf(const std::vector<Item>& items) {
  std::vector<const Item*> pointers;
  for (const Item& item : items) pointers.push_back(&item);
  return pointers;
}

}  // namespace idempotency
