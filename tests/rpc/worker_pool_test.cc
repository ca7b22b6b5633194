#include "server/rpc/worker_pool.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

// A task that holds its worker until it may go.
struct Hold {
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go{false};
  WorkerPool::Task Task() {
    return [this] {
      is_held = true;
      while (!may_go) std::this_thread::yield();
    };
  }
};

TEST(WorkerPool, RunsWhatItTakes) {
  std::atomic<int> ran{0};
  {
    WorkerPool pool(2, 10, 10);
    for (int i = 0; i < 10; ++i) {
      WorkerPool::Task task = [&] { ++ran; };
      ASSERT_TRUE(Eventually([&] { return pool.TryRun(task, 1); }));
    }
  }
  EXPECT_EQ(ran, 10);
}

TEST(WorkerPool, RefusesWhatItHasNoRoomFor) {
  Hold hold;
  WorkerPool pool(1, 1, 10);
  WorkerPool::Task holding = hold.Task();
  ASSERT_TRUE(pool.TryRun(holding, 1));
  ASSERT_TRUE(Eventually([&] { return hold.is_held.load(); }));
  WorkerPool::Task second = [] {};
  EXPECT_TRUE(pool.TryRun(second, 1));
  WorkerPool::Task third = [] {};
  EXPECT_FALSE(pool.TryRun(third, 1));
  EXPECT_TRUE(third != nullptr);
  hold.may_go = true;
}

TEST(WorkerPool, RefusesBytesItHasNoRoomFor) {
  Hold hold;
  WorkerPool pool(1, 10, 100);
  WorkerPool::Task holding = hold.Task();
  ASSERT_TRUE(pool.TryRun(holding, 100));
  ASSERT_TRUE(Eventually([&] { return hold.is_held.load(); }));
  WorkerPool::Task fits = [] {};
  EXPECT_TRUE(pool.TryRun(fits, 60)) << "what runs is not queued any more";
  WorkerPool::Task too_large = [] {};
  EXPECT_FALSE(pool.TryRun(too_large, 41));
  EXPECT_TRUE(too_large != nullptr);
  EXPECT_TRUE(pool.TryRun(too_large, 40));
  hold.may_go = true;
}

// A pool whose only worker is held until the test lets it go, and what its queue came to.
class FairWorkerPool : public testing::Test {
 protected:
  FairWorkerPool() {
    WorkerPool::Task holding = hold_.Task();
    EXPECT_TRUE(pool_->TryRun(holding, 0));
    EXPECT_TRUE(Eventually([&] { return hold_.is_held.load(); }));
  }
  ~FairWorkerPool() override { hold_.may_go = true; }

  bool Queue(const std::string& merchant, const std::string& name, size_t bytes = 1) {
    WorkerPool::Task task = [this, name] { ran_.push_back(name); };
    return pool_->TryRun(task, bytes, {merchant, [this, name] { refused_.push_back(name); }});
  }
  // Everything that is queued has run.
  const std::vector<std::string>& LetRun() {
    hold_.may_go = true;
    pool_.reset();
    return ran_;
  }

  Metrics metrics_;
  Hold hold_;
  // Written by the one worker, read when it has ended.
  std::vector<std::string> ran_;
  std::vector<std::string> refused_;
  std::unique_ptr<WorkerPool> pool_ = std::make_unique<WorkerPool>(1, 4, 100, &metrics_);
};

TEST_F(FairWorkerPool, OneMerchantMayFillIt) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_TRUE(Queue("a", name));
  EXPECT_FALSE(Queue("a", "a5"));
  EXPECT_EQ(metrics_.Value(Metric::kQueuedPayloads), 4);
  EXPECT_EQ(metrics_.Value(Metric::kQueuedPayloadBytes), 4);
  EXPECT_EQ(metrics_.Value(Metric::kPayloadsRefused), 1);
  EXPECT_THAT(LetRun(), testing::ElementsAre("a1", "a2", "a3", "a4"));
  EXPECT_EQ(metrics_.Value(Metric::kQueuedPayloads), 0);
  EXPECT_EQ(metrics_.Value(Metric::kQueuedPayloadBytes), 0);
}

TEST_F(FairWorkerPool, MerchantsTakeTurns) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Queue("a", name));
  EXPECT_TRUE(Queue("b", "b1"));
  EXPECT_THAT(LetRun(), testing::ElementsAre("a1", "b1", "a2", "a3"));
}

TEST_F(FairWorkerPool, FullQueueShedsTheNewestOfTheMerchantThatHasMost) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) EXPECT_TRUE(Queue("a", name));
  EXPECT_TRUE(Queue("b", "b1"));
  EXPECT_TRUE(Queue("b", "b2"));
  EXPECT_FALSE(Queue("b", "b3"));
  EXPECT_THAT(refused_, testing::ElementsAre("a4", "a3"));
  EXPECT_EQ(metrics_.Value(Metric::kPayloadsRefused), 3);
  EXPECT_THAT(LetRun(), testing::ElementsAre("a1", "b1", "a2", "b2"));
}

TEST_F(FairWorkerPool, TaskTooLargeForWhatCanBeShedCostsNobodyHisPlace) {
  for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(Queue("a", name, 30));
  EXPECT_FALSE(Queue("b", "b1", 90));
  EXPECT_TRUE(refused_.empty());
  EXPECT_THAT(LetRun(), testing::ElementsAre("a1", "a2", "a3"));
}

}  // namespace
}  // namespace idempotency
