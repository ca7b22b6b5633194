// A primary that is lost, or left behind, and a standby that takes its place: what was answered is
// there, and a store that knows both hosts goes on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/record/fault.h"
#include "server/store/postgres/migrate.h"
#include "tests/store/replicated_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

// Servers of its own: others would not like what happens to them.
class Failover : public ReplicatedFixture {
 protected:
  Failover() : servers_(2), primary_conninfo_(servers_.primary().CreateDatabase()) {
    EXPECT_TRUE(Migrate(primary_conninfo_).ok());
  }

  // Both hosts, the old primary's first.
  PostgresStoreOptions BothHosts() {
    PostgresStoreOptions options = HastyOptions();
    options.conninfo = absl::StrReplaceAll(
        primary_conninfo_, {{"host=127.0.0.1", "host=127.0.0.1,127.0.0.1"},
                            {absl::StrCat("port=", servers_.primary().server().port()),
                             absl::StrCat("port=", servers_.primary().server().port(), ",",
                                          servers_.standby(1).port())}});
    options.retry_budget = absl::Seconds(5);
    return options;
  }

  // Standby 1 takes writes, and standby 2 confirms them.
  void PromoteStandby() {
    TestStandby& next = servers_.standby(1);
    next.AwaitReceived(servers_.standby(2).Detach());
    next.Promote();
    servers_.standby(2).Follow(next);
    ASSERT_TRUE(
        Exec(next.ConnectionString(), "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
            .ok());
    ASSERT_TRUE(Exec(next.ConnectionString(), "SELECT pg_reload_conf()").ok());
    ASSERT_TRUE(Exec(next.ConnectionString(), "CHECKPOINT").ok());
  }

  std::string OnNewPrimary(const std::string& sql) {
    const auto value =
        QueryValue(servers_.standby(1).ConnectionString(DatabaseName(primary_conninfo_)), sql);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or("");
  }

  // Repeats a Begin, with the health check beside it, until it is answered.
  static BeginResult Insist(Store& store, absl::string_view key) {
    absl::StatusOr<BeginResult> result;
    EXPECT_TRUE(Eventually([&] {
      if (!store.Check().ok()) return false;
      result = BeginOn(store, key);
      return result.ok();
    })) << result.status();
    return *std::move(result);
  }

  TestReplication servers_;
  const std::string primary_conninfo_;
};

TEST_F(Failover, WhatWasAnsweredIsOnThePromotedStandby) {
  const std::unique_ptr<Store> store = NewStore(BothHosts());
  ASSERT_TRUE(store->Check().ok()) << store->Check();
  std::vector<std::string> answered;
  for (size_t i = 0; i < 30; ++i) {
    const std::string key = NumberedKey(i);
    if (i == 20) servers_.standby(2).Freeze();
    ASSERT_TRUE(BeginOn(*store, key).ok());
    ASSERT_TRUE(CompleteOn(*store, key).ok());
    answered.push_back(key);
  }
  servers_.standby(1).Freeze();
  // On the primary alone; nobody is told of it.
  EXPECT_EQ(FaultOf(BeginOn(*store, "key-lost").status()), Fault::kCommitUnknown);
  servers_.primary().server().KillHard();
  servers_.standby(1).Thaw();
  servers_.standby(2).Thaw();
  EXPECT_FALSE(store->Check().ok());
  PromoteStandby();

  const BeginResult first = Insist(*store, "key-first");
  EXPECT_EQ(first.verdict, BeginVerdict::kStarted);
  for (const std::string& key : answered) {
    const auto replay = BeginOn(*store, key, 2);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_EQ(replay->verdict, BeginVerdict::kReplay) << key;
  }
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpen), 0);
}

// It takes connections and says that it takes writes; but nobody follows it any more.
TEST_F(Failover, PrimaryThatWasLeftBehindIsLeftForThePromotedOne) {
  const StoreFactory factory = NewFactory(BothHosts());
  const std::unique_ptr<Store> lane = factory();
  const std::unique_ptr<Store> health = factory();
  ASSERT_TRUE(health->Check().ok()) << health->Check();
  ASSERT_TRUE(BeginOn(*lane, "before").ok());
  PromoteStandby();

  EXPECT_EQ(FaultOf(BeginOn(*lane, "order-1").status()), Fault::kCommitUnknown);
  EXPECT_TRUE(Eventually([&] { return health->Check().ok(); })) << health->Check();
  absl::StatusOr<BeginResult> begun;
  EXPECT_TRUE(Eventually([&] {
    begun = BeginOn(*lane, "order-1");
    return begun.ok();
  })) << begun.status();
  EXPECT_EQ(OnNewPrimary("SELECT string_agg(idempotency_key, ' ' ORDER BY idempotency_key) FROM "
                         "idempotency_record"),
            "before order-1");
  // The lane's commit and the probe's, and no more.
  EXPECT_LE(std::atoi(QueryValue(servers_.AdminConninfo(),
                                 "SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                                 "'idempotencyd' AND wait_event = 'SyncRep'")
                          ->c_str()),
            2);
}

TEST_F(Failover, NodeThatTurnsReadOnlyIsLeftForTheOneThatTakesWrites) {
  const std::unique_ptr<Store> store = NewStore(BothHosts());
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  PromoteStandby();
  servers_.AlterSystem("default_transaction_read_only", "on");
  const BeginResult begun = Insist(*store, "order-1");
  EXPECT_EQ(begun.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(OnNewPrimary("SELECT count(*) FROM idempotency_record"), "2");
}

}  // namespace
}  // namespace idempotency
