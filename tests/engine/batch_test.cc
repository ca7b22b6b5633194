#include "server/engine/batch.h"

#include <atomic>
#include <string>

#include "gtest/gtest.h"
#include "tests/engine/call_util.h"

namespace idempotency {
namespace {

constexpr absl::Duration kNow = absl::Hours(1);
const CallTerms kTerms = {.deadline = absl::Hours(2)};
constexpr BatchLimits kLimits = {.max_items = 4, .max_bytes = 1 << 20};

using Begins = std::deque<std::unique_ptr<BeginCall>>;
using Owners = std::deque<std::unique_ptr<OwnerCall>>;

CallTerms LeftTerms() {
  return {.deadline = absl::Hours(2), .caller_left = std::make_shared<std::atomic<bool>>(true)};
}

TEST(FormBatch, EmptyQueueGivesAnEmptyBatch) {
  Begins pending;
  EXPECT_TRUE(FormBatch(pending, kLimits, Repeats::kFollow, kNow).groups.empty());
}

TEST(FormBatch, SortsByKey) {
  Begins pending;
  for (const char* key : {"c", "a", "b"}) pending.push_back(MakeBegin(BeginOf(key, 1), kTerms));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  const auto items = batch.Items();
  ASSERT_EQ(items.size(), 3u);
  EXPECT_LT(items[0]->key, items[1]->key);
  EXPECT_LT(items[1]->key, items[2]->key);
}

TEST(FormBatch, SortsByMerchantBeforeKey) {
  Begins pending;
  for (const char* merchant : {"b", "a"}) {
    BeginItem item = BeginOf("x", 1);
    item.key = Key(merchant[0] == 'a' ? "z" : "a", merchant);
    pending.push_back(MakeBegin(std::move(item), kTerms));
  }
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  EXPECT_EQ(batch.Items()[0]->key.merchant_id, "a");
}

TEST(FormBatch, TakesAsManyItemsAsTheLimit) {
  Begins pending;
  for (int i = 0; i < 5; ++i) {
    pending.push_back(MakeBegin(BeginOf("order-" + std::to_string(i), 1), kTerms));
  }
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kFollow, kNow).groups.size(), 4u);
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending.front()->item.key, Key("order-4"));
}

TEST(FormBatch, TakesAsManyBytesAsTheLimit) {
  Begins pending;
  for (const char* key : {"a", "b", "c"}) pending.push_back(MakeBegin(BeginOf(key, 1), kTerms));
  const BatchLimits two = {.max_items = 4, .max_bytes = 2 * pending.front()->bytes};
  EXPECT_EQ(FormBatch(pending, two, Repeats::kFollow, kNow).groups.size(), 2u);
  EXPECT_EQ(pending.size(), 1u);
}

TEST(FormBatch, TakesOneCallThatIsLargerThanTheLimit) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), kTerms));
  const BatchLimits none = {.max_items = 4, .max_bytes = 1};
  EXPECT_EQ(FormBatch(pending, none, Repeats::kFollow, kNow).groups.size(), 1u);
}

TEST(FormBatch, SaysWhatItTook) {
  Begins pending;
  for (const char* key : {"a", "a"}) pending.push_back(MakeBegin(BeginOf(key, 1), kTerms));
  const size_t bytes = 2 * pending.front()->bytes;
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  EXPECT_EQ(batch.taken_items, 2u);
  EXPECT_EQ(batch.taken_bytes, bytes);
}

// Known fault 6.
TEST(FormBatch, RepeatedBeginFollowsTheFirstOne) {
  Begins pending;
  for (int attempt : {1, 2, 3}) pending.push_back(MakeBegin(BeginOf("a", attempt), kTerms));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  ASSERT_EQ(batch.groups.size(), 1u);
  EXPECT_EQ(batch.groups[0].first->item.attempt, Attempt(1));
  ASSERT_EQ(batch.groups[0].followers.size(), 2u);
  EXPECT_EQ(batch.groups[0].followers[0]->item.attempt, Attempt(2));
  EXPECT_EQ(batch.groups[0].followers[1]->item.attempt, Attempt(3));
}

TEST(FormBatch, FollowersTakeNoPlaceInTheBatch) {
  Begins pending;
  for (int attempt = 1; attempt <= 10; ++attempt) {
    pending.push_back(MakeBegin(BeginOf("a", attempt), kTerms));
  }
  for (const char* key : {"b", "c", "d"}) pending.push_back(MakeBegin(BeginOf(key, 1), kTerms));
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kFollow, kNow).groups.size(), 4u);
}

// Known fault 41.
TEST(FormBatch, EqualKeysOfTwoMerchantsAreTwoGroups) {
  Begins pending;
  for (const char* merchant : {"one", "two"}) {
    BeginItem item = BeginOf("a", 1);
    item.key = Key("a", merchant);
    pending.push_back(MakeBegin(std::move(item), kTerms));
  }
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kFollow, kNow).groups.size(), 2u);
}

TEST(FormBatch, RepeatedCompleteWaitsInItsOrder) {
  Owners pending;
  for (int attempt : {1, 2, 3}) pending.push_back(MakeOwner(CompleteOf("a", attempt), kTerms));
  pending.push_back(MakeOwner(CompleteOf("b", 1), kTerms));
  const auto batch = FormBatch(pending, kLimits, Repeats::kWait, kNow);
  EXPECT_EQ(batch.groups.size(), 2u);
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[0]->item.attempt, Attempt(2));
  EXPECT_EQ(pending[1]->item.attempt, Attempt(3));
}

TEST(FormBatch, DropsBeginAtItsDeadline) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), {.deadline = kNow}));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  EXPECT_TRUE(batch.groups.empty());
  ASSERT_EQ(batch.dropped.size(), 1u);
  EXPECT_EQ(batch.dropped[0].second, Fault::kDeadlineExceeded);
}

TEST(FormBatch, KeepsBeginJustBeforeItsDeadline) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), {.deadline = kNow + absl::Nanoseconds(1)}));
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kFollow, kNow).groups.size(), 1u);
}

TEST(FormBatch, DropsBeginWhoseCallerLeft) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), LeftTerms()));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  ASSERT_EQ(batch.dropped.size(), 1u);
  EXPECT_EQ(batch.dropped[0].second, Fault::kCancelled);
}

TEST(FormBatch, DroppedFirstLeavesItsPlaceToTheNext) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), LeftTerms()));
  pending.push_back(MakeBegin(BeginOf("a", 2), kTerms));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  ASSERT_EQ(batch.groups.size(), 1u);
  EXPECT_EQ(batch.groups[0].first->item.attempt, Attempt(2));
}

TEST(FormBatch, DropsFollowerWhoseCallerLeft) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("a", 1), kTerms));
  pending.push_back(MakeBegin(BeginOf("a", 2), LeftTerms()));
  const auto batch = FormBatch(pending, kLimits, Repeats::kFollow, kNow);
  EXPECT_TRUE(batch.groups[0].followers.empty());
  EXPECT_EQ(batch.dropped.size(), 1u);
}

TEST(FormBatch, DropsRenewAtItsDeadline) {
  Owners pending;
  pending.push_back(MakeOwner(RenewOf("a", 1), {.deadline = kNow}));
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kWait, kNow).dropped.size(), 1u);
}

// Known fault 40.
TEST(FormBatch, NeverDropsACompleteOrFail) {
  Owners pending;
  pending.push_back(MakeOwner(CompleteOf("a", 1), {.deadline = kNow}));
  pending.push_back(MakeOwner(CompleteOf("b", 1), LeftTerms()));
  pending.push_back(MakeOwner(FailOf("c", 1, Disposition::kUnknown), {.deadline = kNow}));
  pending.push_back(MakeOwner(FailOf("d", 1, Disposition::kFinal), LeftTerms()));
  EXPECT_EQ(FormBatch(pending, kLimits, Repeats::kWait, kNow).groups.size(), 4u);
}

TEST(ReturnToFront, KeepsTheOrder) {
  Begins pending;
  pending.push_back(MakeBegin(BeginOf("c", 1), kTerms));
  std::vector<std::unique_ptr<BeginCall>> again;
  for (const char* key : {"a", "b"}) again.push_back(MakeBegin(BeginOf(key, 1), kTerms));
  ReturnToFront(again, pending);
  ASSERT_EQ(pending.size(), 3u);
  EXPECT_EQ(pending[0]->item.key, Key("a"));
  EXPECT_EQ(pending[1]->item.key, Key("b"));
  EXPECT_EQ(pending[2]->item.key, Key("c"));
}

}  // namespace
}  // namespace idempotency
