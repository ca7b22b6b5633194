#include "server/engine/queue.h"

#include "gtest/gtest.h"
#include "tests/engine/call_util.h"

namespace idempotency {
namespace {

using PushResult = LaneQueue::PushResult;

constexpr size_t kPlenty = 1 << 20;
const CallTerms kTerms = {.deadline = absl::Hours(2)};

// None of them has another merchant's calls make room for it.
PushResult PushBegin(LaneQueue& queue, int number = 1) {
  auto call = MakeBegin(BeginOf("begin-" + std::to_string(number), 1), kTerms);
  ShedCalls shed;
  return queue.Push(call, &shed);
}
PushResult PushComplete(LaneQueue& queue) {
  auto call = MakeOwner(CompleteOf("complete", 1), kTerms);
  return queue.Push(call);
}
PushResult PushLookup(LaneQueue& queue) {
  auto call = MakeLookup("lookup", kTerms);
  ShedCalls shed;
  return queue.Push(call, &shed);
}

TEST(LaneQueue, BeginsFillThreeQuartersOfTheItems) {
  Metrics metrics;
  LaneQueue queue(8, kPlenty, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(PushBegin(queue), PushResult::kAccepted);
  EXPECT_EQ(PushBegin(queue), PushResult::kOverloaded);
}

TEST(LaneQueue, LookupsFillThreeQuartersOfTheItems) {
  Metrics metrics;
  LaneQueue queue(8, kPlenty, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(PushLookup(queue), PushResult::kAccepted);
  EXPECT_EQ(PushLookup(queue), PushResult::kOverloaded);
}

TEST(LaneQueue, CompletesHaveTheLastQuarter) {
  Metrics metrics;
  LaneQueue queue(8, kPlenty, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(PushBegin(queue), PushResult::kAccepted);
  EXPECT_EQ(PushComplete(queue), PushResult::kAccepted);
  EXPECT_EQ(PushComplete(queue), PushResult::kAccepted);
  EXPECT_EQ(PushComplete(queue), PushResult::kOverloaded);
}

TEST(LaneQueue, BytesAreBoundedLikeItems) {
  Metrics metrics;
  const size_t bytes = MakeBegin(BeginOf("begin-1", 1), kTerms)->bytes;
  LaneQueue queue(100, 4 * bytes, &metrics);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(PushBegin(queue), PushResult::kAccepted);
  EXPECT_EQ(PushBegin(queue), PushResult::kOverloaded);
}

TEST(LaneQueue, CompletesHaveTheLastQuarterOfTheBytes) {
  Metrics metrics;
  const size_t bytes = MakeOwner(CompleteOf("complete", 1), kTerms)->bytes;
  LaneQueue queue(100, 4 * bytes, &metrics);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(PushComplete(queue), PushResult::kAccepted);
  EXPECT_EQ(PushComplete(queue), PushResult::kOverloaded);
}

TEST(LaneQueue, BodiesCountInBytes) {
  Outcome outcome;
  outcome.body = std::string(100'000, 'x');
  OwnerItem item = CompleteOf("order-1", 1);
  item.answer = std::make_shared<const Answer>(std::move(outcome));
  EXPECT_GE(MakeOwner(std::move(item), kTerms)->bytes, 100'000u);
}

TEST(LaneQueue, LabelsCountInBytes) {
  BeginItem item = BeginOf("order-1", 1);
  item.labels["order"] = std::string(128, 'x');
  EXPECT_GE(MakeBegin(std::move(item), kTerms)->bytes,
            MakeBegin(BeginOf("order-1", 1), kTerms)->bytes + 128);
}

TEST(LaneQueue, RefusedCallStaysWithItsOwner) {
  Metrics metrics;
  LaneQueue queue(0, kPlenty, &metrics);
  auto call = MakeBegin(BeginOf("order-1", 1), kTerms);
  ShedCalls shed;
  EXPECT_EQ(queue.Push(call, &shed), PushResult::kOverloaded);
  EXPECT_NE(call, nullptr);
}

TEST(LaneQueue, TakesEachKindInTheOrderOfItsComing) {
  Metrics metrics;
  LaneQueue queue(100, kPlenty, &metrics);
  for (int i = 0; i < 3; ++i) PushBegin(queue, i);
  Incoming incoming;
  queue.Take(&incoming);
  ASSERT_EQ(incoming.begins.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(incoming.begins[i]->item.key, Key("begin-" + std::to_string(i)));
  }
}

TEST(LaneQueue, TakesAsManyKeysAsItIsAskedFor) {
  Metrics metrics;
  LaneQueue queue(100, kPlenty, &metrics);
  for (int i = 0; i < 3; ++i) PushBegin(queue, i);
  for (int i = 0; i < 2; ++i) PushLookup(queue);
  Incoming incoming;
  queue.Take(&incoming, 2, 1);
  EXPECT_EQ(incoming.begins.size(), 2u);
  EXPECT_EQ(incoming.lookups.size(), 2u);
  EXPECT_TRUE(incoming.has_more);
  incoming = {};
  queue.Take(&incoming, 2, 1);
  EXPECT_EQ(incoming.begins.size(), 1u);
  EXPECT_FALSE(incoming.has_more);
}

TEST(LaneQueue, WaitForWorkReturnsForWhatWasLeft) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  PushBegin(queue);
  Incoming incoming;
  queue.Take(&incoming, 0, 0);
  queue.WaitForWork(absl::InfiniteDuration());
}

TEST(LaneQueue, SaysWhichBoundRefused) {
  Metrics metrics;
  LaneQueue full_of_items(0, kPlenty, &metrics);
  PushBegin(full_of_items);
  PushComplete(full_of_items);
  EXPECT_EQ(metrics.Value(Metric::kQueueFullOfItems), 2);
  LaneQueue full_of_bytes(100, 0, &metrics);
  PushBegin(full_of_bytes);
  PushComplete(full_of_bytes);
  EXPECT_EQ(metrics.Value(Metric::kQueueFullOfBytes), 2);
  EXPECT_EQ(metrics.Value(Metric::kQueueFullOfItems), 2);
}

TEST(LaneQueue, TakenCallsCountUntilTheyLeft) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  for (int i = 0; i < 3; ++i) PushBegin(queue);
  Incoming incoming;
  queue.Take(&incoming);
  EXPECT_EQ(PushBegin(queue), PushResult::kOverloaded);
  queue.Left(1, incoming.begins[0]->bytes);
  EXPECT_EQ(PushBegin(queue), PushResult::kAccepted);
}

TEST(LaneQueue, GaugesReturnToZero) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  PushBegin(queue);
  Incoming incoming;
  queue.Take(&incoming);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedItems), 1);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedBytes),
            static_cast<int64_t>(incoming.begins[0]->bytes));
  queue.Left(1, incoming.begins[0]->bytes);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedItems), 0);
  EXPECT_EQ(metrics.Value(LaneMetric::kQueuedBytes), 0);
}

TEST(LaneQueue, ClosedQueueRefusesAndKeepsWhatItHas) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  PushBegin(queue);
  queue.Close();
  EXPECT_EQ(PushBegin(queue), PushResult::kDraining);
  EXPECT_EQ(PushComplete(queue), PushResult::kDraining);
  Incoming incoming;
  queue.Take(&incoming);
  EXPECT_EQ(incoming.begins.size(), 1u);
  EXPECT_TRUE(incoming.closed);
}

TEST(LaneQueue, StaysClosedAfterTaking) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  queue.Close();
  Incoming incoming;
  queue.Take(&incoming);
  queue.Take(&incoming);
  EXPECT_TRUE(incoming.closed);
  EXPECT_EQ(PushBegin(queue), PushResult::kDraining);
}

TEST(LaneQueue, ReturnedCallFindsRoomInAFullQueue) {
  Metrics metrics;
  LaneQueue queue(0, 0, &metrics);
  auto call = MakeBegin(BeginOf("order-1", 1), kTerms);
  EXPECT_EQ(queue.Return(call), PushResult::kAccepted);
}

TEST(LaneQueue, ReturnedCallIsRefusedByAClosedQueue) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  queue.Close();
  auto call = MakeBegin(BeginOf("order-1", 1), kTerms);
  EXPECT_EQ(queue.Return(call), PushResult::kDraining);
  EXPECT_NE(call, nullptr);
}

TEST(LaneQueue, WaitForWorkReturnsWhenSomethingIsThere) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  PushBegin(queue);
  queue.WaitForWork(absl::InfiniteDuration());
}

TEST(LaneQueue, WaitForWorkReturnsWhenClosed) {
  Metrics metrics;
  LaneQueue queue(4, kPlenty, &metrics);
  queue.Close();
  queue.WaitForWork(absl::InfiniteDuration());
}

TEST(LaneQueues, KeyAlwaysRidesInOneLane) {
  Metrics metrics;
  LaneQueues queues(7, 100, kPlenty, &metrics);
  const size_t first = MakeBegin(BeginOf("order-1", 1), kTerms)->hash;
  const size_t second = MakeOwner(CompleteOf("order-1", 2), kTerms)->hash;
  const size_t third = MakeLookup("order-1", kTerms)->hash;
  EXPECT_EQ(&queues.Of(first), &queues.Of(second));
  EXPECT_EQ(&queues.Of(first), &queues.Of(third));
}

TEST(LaneQueues, KeysSpreadOverAllLanes) {
  Metrics metrics;
  LaneQueues queues(4, 4000, 100 * kPlenty, &metrics);
  for (int i = 0; i < 200; ++i) {
    auto call = MakeBegin(BeginOf("order-" + std::to_string(i), 1), kTerms);
    ShedCalls shed;
    queues.Of(call->hash).Push(call, &shed);
  }
  for (size_t lane = 0; lane < 4; ++lane) {
    Incoming incoming;
    queues.At(lane).Take(&incoming);
    EXPECT_GT(incoming.begins.size(), 0u) << "lane " << lane;
  }
}

}  // namespace
}  // namespace idempotency
