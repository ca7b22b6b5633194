// Items for whose answers a batch had no room: they come with the next batch, and nobody waits for
// ever.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/record/fault.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class AnswerBytesTest : public EngineTest {
 protected:
  void HoldBack(absl::string_view key) {
    database_.FailKey(Key(key), MakeFault(Fault::kNotRead, "no room"));
  }
  void LetThrough(absl::string_view key) { database_.ClearKeyFault(Key(key)); }
};

TEST_F(AnswerBytesTest, BeginThatWasNotReadIsInTheNextBatch) {
  HoldBack("b");
  const auto a = Begin(BeginOf("a", 1));
  const auto b = Begin(BeginOf("b", 1));
  Step();
  EXPECT_TRUE(a.IsAnswered());
  EXPECT_FALSE(b.IsAnswered());
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 1);
  LetThrough("b");
  Step();
  EXPECT_EQ((*b).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
}

TEST_F(AnswerBytesTest, FollowersOfABeginThatWasNotReadKeepTheirOrder) {
  HoldBack("a");
  const auto first = Begin(BeginOf("a", 1));
  const auto second = Begin(BeginOf("a", 2));
  Step();
  LetThrough("a");
  Step();
  EXPECT_EQ((*first).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*second).verdict, BeginVerdict::kInProgress);
}

TEST_F(AnswerBytesTest, LookupThatWasNotReadIsInTheNextBatch) {
  HoldBack("a");
  const auto first = Lookup("a");
  const auto second = Lookup("a");
  Step();
  EXPECT_FALSE(first.IsAnswered());
  EXPECT_FALSE(second.IsAnswered());
  LetThrough("a");
  Step();
  EXPECT_TRUE(first.IsAnswered());
  EXPECT_TRUE(second.IsAnswered());
}

TEST_F(AnswerBytesTest, CompleteThatWasNotReadIsInTheNextBatch) {
  Start("a");
  HoldBack("a");
  const auto complete = Owner(CompleteOf("a", 1));
  const auto again = Owner(CompleteOf("a", 1));
  Step();
  EXPECT_FALSE(complete.IsAnswered());
  LetThrough("a");
  Step();
  Step();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ((*again).verdict, OwnerVerdict::kAlreadyRecorded);
}

// Rows are read in the order of keys: among others the last one might be left over every time.
TEST_F(AnswerBytesTest, WhatWasNotReadMakesABatchOfItsOwn) {
  HoldBack("y");
  HoldBack("z");
  Begin(BeginOf("y", 1));
  Begin(BeginOf("z", 1));
  Step();
  const auto later = Begin(BeginOf("a", 1));
  const size_t before = database_.Batches().size();
  Step();
  ASSERT_EQ(database_.Batches().size(), before + 1);
  EXPECT_EQ(database_.Batches().back().items, 2u);
  EXPECT_FALSE(later.IsAnswered());
  LetThrough("y");
  LetThrough("z");
  Step();
  Step();
  EXPECT_TRUE(later.IsAnswered());
}

TEST_F(AnswerBytesTest, DrainAnswersWhatWasNotRead) {
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kNotRead, "no room"));
  const auto told = Begin(BeginOf("a", 1));
  engine().Drain();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
}

}  // namespace
}  // namespace idempotency
