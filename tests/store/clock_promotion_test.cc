// A standby that is promoted, with a clock of its own: the guard's row came with the data.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/store/postgres/migrate.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"
#include "tests/util/test_clock.h"
#include "tests/util/test_replication.h"

namespace idempotency {
namespace {

constexpr char kClock[] = " options='-csearch_path=test_clock,pg_catalog,public'";

// The promoted node's clock, ahead of the lost primary's.
class ClockPromotion : public ::testing::TestWithParam<absl::Duration> {
 protected:
  ClockPromotion() : servers_(1), conninfo_(servers_.primary().CreateDatabase()) {
    EXPECT_TRUE(Migrate(conninfo_).ok());
    clock_.emplace(conninfo_, absl::Now());
    clock_->Run(absl::ZeroDuration());
  }

  std::unique_ptr<Store> NewStore(const std::string& conninfo) {
    PostgresStoreOptions options;
    options.conninfo = absl::StrCat(conninfo, kClock);
    // Short, so that a key can be purged.
    options.policy.replay_window = absl::Milliseconds(1);
    return MakePostgresStoreFactory(std::move(options), &metrics_)();
  }

  static BeginItem Request(const std::string& key, int attempt) {
    BeginItem item;
    item.key = {"m1", key};
    item.operation = "POST /orders";
    item.attempt = HashAttemptId(absl::StrCat("attempt-", attempt));
    item.ttl = absl::Seconds(1);
    item.lease_duration = absl::Seconds(60);
    return item;
  }

  static BeginResult Begin(Store& store, const std::string& key, int attempt) {
    const BeginItem item = Request(key, attempt);
    const BeginItem* const items[] = {&item};
    const absl::StatusOr<BeginResult> result = store.BeginBatch(items)[0];
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : BeginResult{.record = std::make_shared<const Record>()};
  }

  // The token of a record that was completed, expired and is purged.
  static int64_t Purged(Store& store, const std::string& key) {
    const int64_t token = Begin(store, key, 1).record->fencing_token;
    OwnerItem item;
    item.key = {"m1", key};
    item.attempt = HashAttemptId("attempt-1");
    item.answer = std::make_shared<const Answer>(Outcome{});
    const OwnerItem* const items[] = {&item};
    EXPECT_TRUE(store.OwnerBatch(items)[0].ok());
    EXPECT_TRUE(Eventually([&] { return store.PurgeStep({0, 1000}).value_or(0) == 1; }));
    return token;
  }

  // Kills the primary and promotes the standby; returns the way to it.
  std::string Promote() {
    servers_.primary().server().KillHard();
    TestStandby& standby = servers_.standby(1);
    standby.Promote();
    EXPECT_TRUE(
        Exec(standby.ConnectionString(), "ALTER SYSTEM SET synchronous_standby_names = ''").ok());
    EXPECT_TRUE(Exec(standby.ConnectionString(), "SELECT pg_reload_conf()").ok());
    const std::string conninfo = standby.ConnectionString(DatabaseName(conninfo_));
    EXPECT_TRUE(
        Exec(conninfo, absl::StrCat("UPDATE test_clock.reading SET ahead = ",
                                    absl::ToInt64Microseconds(GetParam()), " * interval '1 us'"))
            .ok());
    return conninfo;
  }

  TestReplication servers_;
  const std::string conninfo_;
  std::optional<TestClock> clock_;
  Metrics metrics_;
};

TEST_P(ClockPromotion, EndsNoLeaseRepeatsNoTokenAndIsNoted) {
  const std::unique_ptr<Store> before = NewStore(conninfo_);
  int64_t first_token = 0;
  int64_t second_token = 0;
  {
    const WatchedClock watched(absl::StrCat(conninfo_, kClock));
    first_token = Purged(*before, "purged-1");
    second_token = Purged(*before, "purged-2");
    ASSERT_EQ(Begin(*before, "live", 1).verdict, BeginVerdict::kStarted);
    ASSERT_TRUE(before->RefreshClock(false).ok());
  }

  const std::unique_ptr<Store> after = NewStore(Promote());
  // No replica has looked at the new clock yet.
  EXPECT_EQ(Begin(*after, "live", 2).verdict, BeginVerdict::kInProgress);
  EXPECT_GT(Begin(*after, "purged-1", 2).record->fencing_token, first_token);
  const absl::StatusOr<std::vector<SweptRecord>> swept =
      after->SweepStep({0, 1000}, absl::ZeroDuration());
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_TRUE(swept->empty());
  EXPECT_EQ(after->Identity()->system_identifier, before->Identity()->system_identifier);
  EXPECT_GT(after->Identity()->timeline, before->Identity()->timeline);

  const absl::StatusOr<ClockState> noted = after->RefreshClock(false);
  ASSERT_TRUE(noted.ok()) << noted.status();
  EXPECT_EQ(noted->last_jump, ClockJump::kOtherHistory);
  EXPECT_EQ(noted->guard.last_jump_at, noted->now);
  EXPECT_EQ(Begin(*after, "live", 2).verdict, BeginVerdict::kInProgress);
  EXPECT_GT(Begin(*after, "purged-2", 2).record->fencing_token, second_token);
  // Once noted it is the history that goes on.
  EXPECT_TRUE(after->ReadClock()->is_same_history);
}

INSTANTIATE_TEST_SUITE_P(Clocks, ClockPromotion,
                         ::testing::Values(-absl::Hours(2), -absl::Seconds(60),
                                           absl::ZeroDuration(), absl::Hours(2)),
                         [](const ::testing::TestParamInfo<absl::Duration>& clock) {
                           const int64_t seconds = absl::ToInt64Seconds(clock.param);
                           return absl::StrCat(seconds < 0 ? "Behind" : "Ahead", std::abs(seconds),
                                               "s");
                         });

}  // namespace
}  // namespace idempotency
