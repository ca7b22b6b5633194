// The service behind PgBouncer.
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/replicas.h"
#include "tests/e2e/service_process.h"
#include "tests/ops/raw_client.h"
#include "tests/util/eventually.h"
#include "tests/util/test_pooler.h"

namespace idempotency {
namespace {

TEST(PoolerInSessionMode, MigratesAndServes) {
  const TestDatabase database;
  TestPooler pooler(SharedPostgres(), database.name(), "session");
  ASSERT_TRUE(Migrate(pooler.conninfo()).ok());
  ReplicaProcesses replicas(2, pooler.conninfo());
  ASSERT_TRUE(replicas.client(0).Begin(BeginOf("k", "a")).response.has_started());
  EXPECT_TRUE(replicas.client(1).Begin(BeginOf("k", "b")).response.has_in_progress());
  EXPECT_TRUE(replicas.client(1).Complete(CompleteOf("k", "a")).ok());
  EXPECT_TRUE(replicas.client(0).Begin(BeginOf("k", "b")).response.has_replay());

  pooler.Restart();
  EXPECT_TRUE(Eventually([&] { return replicas.client(0).Begin(BeginOf("l", "a")).ok(); }));
  EXPECT_TRUE(Eventually([&] { return replicas.client(1).Complete(CompleteOf("l", "a")).ok(); }));
}

TEST(PoolerInTransactionMode, IsNeverReadyAndSaysWhy) {
  const MigratedDatabase database;
  const TestPooler pooler(SharedPostgres(), DatabaseName(database.conninfo()), "transaction");
  ServiceProcess service(ServeArguments(pooler.conninfo()));
  Client client(service.AwaitAddress());
  const int port = service.AwaitOpsPort();
  HttpReply page;
  EXPECT_TRUE(Eventually([&] {
    page = Get(port, "/readyz?verbose");
    return absl::StrContains(page.body, "must be in session mode");
  })) << page.body
      << service.Log();
  EXPECT_EQ(page.status, 503);
  EXPECT_FALSE(client.IsServing());
}

}  // namespace
}  // namespace idempotency
