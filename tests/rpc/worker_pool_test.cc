#include "server/rpc/worker_pool.h"

#include <atomic>
#include <thread>

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

TEST(WorkerPool, CountsWhatWaits) {
  Metrics metrics;
  Hold hold;
  {
    WorkerPool pool(1, 10, 100, &metrics);
    WorkerPool::Task holding = hold.Task();
    ASSERT_TRUE(pool.TryRun(holding, 5));
    ASSERT_TRUE(Eventually([&] { return hold.is_held.load(); }));
    EXPECT_EQ(metrics.Value(Metric::kWorkerQueuedItems), 0);
    WorkerPool::Task waiting = [] {};
    ASSERT_TRUE(pool.TryRun(waiting, 7));
    EXPECT_EQ(metrics.Value(Metric::kWorkerQueuedItems), 1);
    EXPECT_EQ(metrics.Value(Metric::kWorkerQueuedBytes), 7);
    hold.may_go = true;
  }
  EXPECT_EQ(metrics.Value(Metric::kWorkerQueuedItems), 0);
  EXPECT_EQ(metrics.Value(Metric::kWorkerQueuedBytes), 0);
}

}  // namespace
}  // namespace idempotency
