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
    WorkerPool pool(2, 10);
    for (int i = 0; i < 10; ++i) {
      WorkerPool::Task task = [&] { ++ran; };
      ASSERT_TRUE(Eventually([&] { return pool.TryRun(task); }));
    }
  }
  EXPECT_EQ(ran, 10);
}

TEST(WorkerPool, RefusesWhatItHasNoRoomFor) {
  Hold hold;
  WorkerPool pool(1, 1);
  WorkerPool::Task holding = hold.Task();
  ASSERT_TRUE(pool.TryRun(holding));
  ASSERT_TRUE(Eventually([&] { return hold.is_held.load(); }));
  WorkerPool::Task second = [] {};
  EXPECT_TRUE(pool.TryRun(second));
  WorkerPool::Task third = [] {};
  EXPECT_FALSE(pool.TryRun(third));
  EXPECT_TRUE(third != nullptr);
  hold.may_go = true;
}

}  // namespace
}  // namespace idempotency
