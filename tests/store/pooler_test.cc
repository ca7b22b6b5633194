// The store through PgBouncer: in session mode it works, in the others it says why it does not.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fault.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"
#include "tests/util/test_pooler.h"

namespace idempotency {
namespace {

using ::testing::HasSubstr;

class Pooler : public PostgresFixture {
 protected:
  std::unique_ptr<Store> StoreThrough(const TestPooler& pooler) {
    PostgresStoreOptions options = Options();
    options.conninfo = pooler.conninfo();
    return NewStore(options);
  }
  absl::StatusOr<BeginResult> BeginOn(Store& store, absl::string_view key, int attempt = 1) {
    const BeginItem item = Request(key, attempt);
    const BeginItem* const items[] = {&item};
    return store.BeginBatch(items)[0];
  }
  absl::StatusOr<OwnerResult> CompleteOn(Store& store, absl::string_view key) {
    const OwnerItem item = Completed(key);
    const OwnerItem* const items[] = {&item};
    return store.OwnerBatch(items)[0];
  }
  std::string Database() { return DatabaseName(conninfo()); }
};

TEST_F(Pooler, InSessionModeManyStoresWorkSideBySide) {
  const TestPooler pooler(SharedPostgres(), Database(), "session");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Store> store = StoreThrough(pooler);
      for (int turn = 0; turn < 20; ++turn) {
        const std::string key = absl::StrCat("key-", i, "-", turn);
        const auto begun = BeginOn(*store, key);
        ASSERT_TRUE(begun.ok()) << begun.status();
        EXPECT_EQ(begun->verdict, BeginVerdict::kStarted);
        EXPECT_EQ(CompleteOn(*store, key)->verdict, OwnerVerdict::kRecorded);
        EXPECT_EQ(BeginOn(*store, key, 2)->verdict, BeginVerdict::kReplay);
        EXPECT_TRUE(store->Check().ok()) << store->Check();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Pooler, InSessionModeASessionThatAnotherLeftIsAsNew) {
  const TestPooler pooler(SharedPostgres(), Database(), "session");
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Store> store = StoreThrough(pooler);
    ASSERT_TRUE(BeginOn(*store, absl::StrCat("key-", i)).ok());
    EXPECT_TRUE(store->Check().ok()) << store->Check();
  }
}

TEST_F(Pooler, ThatIsStartedAnewIsConnectedToAgain) {
  TestPooler pooler(SharedPostgres(), Database(), "session");
  const std::unique_ptr<Store> store = StoreThrough(pooler);
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  pooler.Restart();
  absl::StatusOr<OwnerResult> completed;
  EXPECT_TRUE(Eventually([&] {
    completed = CompleteOn(*store, "order-1");
    return completed.ok();
  })) << completed.status();
  EXPECT_EQ(BeginOn(*store, "order-1", 2)->verdict, BeginVerdict::kReplay);
}

class SharedSessions : public Pooler, public testing::WithParamInterface<const char*> {};

// With a connection alone the statements might happen to find their own session again and again.
TEST_P(SharedSessions, AreRefusedWithAMessageThatNamesTheMode) {
  const TestPooler pooler(SharedPostgres(), Database(), GetParam());
  const std::unique_ptr<Store> first = StoreThrough(pooler);
  const std::unique_ptr<Store> second = StoreThrough(pooler);
  (void)first->Check();
  const absl::Status refused = second->Check();
  EXPECT_EQ(FaultOf(refused), Fault::kNotDurable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("must be in session mode"));
  const auto begun = BeginOn(*second, "order-1");
  EXPECT_EQ(FaultOf(begun.status()), Fault::kStoreUnavailable) << begun.status();
  EXPECT_EQ(Value("SELECT count(*) FROM idempotency_record"), "0");
}

// Its statements are still there, but the session's settings are another's by now.
TEST_P(SharedSessions, AreNoticedByTheOneThatWasThereFirst) {
  const TestPooler pooler(SharedPostgres(), Database(), GetParam());
  const std::unique_ptr<Store> first = StoreThrough(pooler);
  (void)first->Check();
  (void)StoreThrough(pooler)->Check();
  const absl::Status noticed = first->Check();
  EXPECT_EQ(FaultOf(noticed), Fault::kNotDurable) << noticed;
  EXPECT_THAT(std::string(noticed.message()), HasSubstr("must be in session mode"));
}

INSTANTIATE_TEST_SUITE_P(Modes, SharedSessions, testing::Values("transaction", "statement"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace idempotency
