#include "server/rpc/answer_room.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

class AnswerRoomTest : public testing::Test {
 protected:
  using Held = AnswerRoom::Held;

  // Whether there was room; if so it is held until Release.
  bool Holds(const std::string& merchant, size_t bytes) {
    std::optional<Held> held = room_.TryHold(merchant, bytes);
    if (!held.has_value()) return false;
    held_.push_back(*std::move(held));
    return true;
  }
  int64_t Bytes() const { return metrics_.Value(Metric::kAnswerBytes); }
  int64_t Refused() const { return metrics_.Value(Metric::kAnswersRefused); }

  Metrics metrics_;
  AnswerRoom room_{1000, &metrics_};
  std::vector<Held> held_;
};

TEST_F(AnswerRoomTest, HalfOfItFitsOneAnswer) {
  EXPECT_FALSE(Holds("acme", 501));
  EXPECT_TRUE(Holds("acme", 500));
  EXPECT_EQ(Bytes(), 500);
  EXPECT_EQ(Refused(), 1);
}

TEST_F(AnswerRoomTest, MerchantAloneMayHoldHalfOfIt) {
  EXPECT_TRUE(Holds("acme", 300));
  EXPECT_FALSE(Holds("acme", 201));
  EXPECT_TRUE(Holds("acme", 200));
  EXPECT_FALSE(Holds("acme", 1));
  EXPECT_EQ(Bytes(), 500);
}

TEST_F(AnswerRoomTest, EachThatTakesAllItCanLeavesAsMuchAsItHolds) {
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(Holds("acme", 1));
  EXPECT_FALSE(Holds("acme", 1));
  for (int i = 0; i < 250; ++i) EXPECT_TRUE(Holds("globex", 1));
  EXPECT_FALSE(Holds("globex", 1));
  EXPECT_FALSE(Holds("initech", 126));
  EXPECT_TRUE(Holds("initech", 125));
  EXPECT_FALSE(Holds("umbrella", 63));
  EXPECT_TRUE(Holds("umbrella", 62));
  EXPECT_EQ(Bytes(), 937);
}

TEST_F(AnswerRoomTest, WhatIsGivenBackMakesRoom) {
  EXPECT_TRUE(Holds("acme", 500));
  EXPECT_FALSE(Holds("acme", 1));
  held_.clear();
  EXPECT_EQ(Bytes(), 0);
  EXPECT_TRUE(Holds("acme", 500));
  EXPECT_FALSE(Holds("acme", 1));
}

TEST_F(AnswerRoomTest, AnswerThatHasToGoOutGoesPastTheBoundAndCounts) {
  EXPECT_TRUE(Holds("acme", 500));
  held_.push_back(room_.Hold(800));
  EXPECT_EQ(Bytes(), 1300);
  EXPECT_FALSE(Holds("globex", 1));
  EXPECT_EQ(Refused(), 1);
  held_.clear();
  EXPECT_EQ(Bytes(), 0);
}

TEST_F(AnswerRoomTest, AnswerOfNoBytesHoldsNone) {
  EXPECT_TRUE(Holds("acme", 0));
  EXPECT_EQ(Bytes(), 0);
  held_.clear();
  EXPECT_TRUE(Holds("acme", 500));
}

TEST_F(AnswerRoomTest, IsGivenBackOnceThoughItMoves) {
  EXPECT_TRUE(Holds("acme", 100));
  // Moves it, and destroys what it was moved from.
  held_.reserve(held_.capacity() + 1);
  EXPECT_EQ(Bytes(), 100);
  held_.clear();
  EXPECT_EQ(Bytes(), 0);
}

TEST_F(AnswerRoomTest, ThreadsThatHoldAndGiveBackNeverPassTheBound) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int turn = 0; turn < 2000; ++turn) {
        std::vector<Held> mine;
        for (int answer = 0; answer < 5; ++answer) {
          auto held = room_.TryHold("merchant-" + std::to_string((i + turn) % 5), 60);
          if (held.has_value()) mine.push_back(*std::move(held));
          EXPECT_LE(Bytes(), 1000);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Bytes(), 0);
  EXPECT_TRUE(Holds("acme", 500));
}

}  // namespace
}  // namespace idempotency
