// `serve --durability=replicated`, whole, on a primary with one standby that goes and comes back.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/client.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"
#include "tests/util/test_replication.h"

namespace idempotency {
namespace {

class ReplicatedEndToEnd : public testing::Test {
 protected:
  ReplicatedEndToEnd() : servers_(1), conninfo_(servers_.primary().CreateDatabase()) {
    EXPECT_TRUE(Migrate(conninfo_).ok());
    replicas_ = std::make_unique<ReplicaProcesses>(
        2, conninfo_,
        std::vector<std::string>{"--durability=replicated", "--store-commit-timeout=500ms"});
  }

  ~ReplicatedEndToEnd() override { servers_.standby(1).Thaw(); }

  Client& client(int i) { return replicas_->client(i); }

  int CountWaiting() {
    return std::atoi(QueryValue(servers_.AdminConninfo(),
                                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = "
                                "'SyncRep' AND application_name = 'idempotencyd'")
                         ->c_str());
  }

  TestReplication servers_;
  const std::string conninfo_;
  std::unique_ptr<ReplicaProcesses> replicas_;
};

TEST_F(ReplicatedEndToEnd, CallsAreRefusedAtOnceWhileTheStandbyIsGone) {
  ASSERT_TRUE(client(0).Begin(BeginOf("before", "attempt-before-000")).ok());
  servers_.standby(1).Freeze();

  const auto unknown = client(0).Begin(BeginOf("order-1", "attempt-order-1-00"));
  EXPECT_EQ(unknown.reason, "COMMIT_UNKNOWN") << unknown.status.error_message();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Eventually([&] { return !client(i).IsServing(); }));
  }
  // Both replicas have found out by now; whatever is called is refused, and nothing waits for it.
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Eventually([&] {
      return client(i).Begin(BeginOf("order-2", "attempt-order-2-00")).reason ==
             "STORE_UNAVAILABLE";
    }));
  }
  const int waiting = CountWaiting();
  for (int call = 0; call < 100; ++call) {
    EXPECT_EQ(client(call % 2).Begin(BeginOf(absl::StrCat("key-", call), "attempt-000000")).reason,
              "STORE_UNAVAILABLE");
  }
  EXPECT_EQ(client(0).Complete(CompleteOf("before", "attempt-before-000", "paid")).reason,
            "STORE_UNAVAILABLE");
  EXPECT_LE(CountWaiting(), waiting);
  EXPECT_TRUE(absl::StrContains(replicas_->Logs(), "not_serving"));

  servers_.standby(1).Thaw();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Eventually([&] { return client(i).IsServing(); })) << replicas_->Logs();
  }
  Called<v1::BeginResponse> again;
  EXPECT_TRUE(Eventually([&] {
    again = client(1).Begin(BeginOf("order-1", "attempt-order-1-00"));
    return again.ok();
  }));
  EXPECT_TRUE(again.response.started().repeated());
  EXPECT_EQ(again.response.started().attempt_number(), 1);
  EXPECT_TRUE(client(0).Complete(CompleteOf("before", "attempt-before-000", "paid")).ok());
}

}  // namespace
}  // namespace idempotency
