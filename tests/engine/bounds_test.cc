// What the engine refuses at the door, and that it answers every call exactly once.
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/engine/call_util.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class BoundsTest : public EngineTest {
 protected:
  Told<BeginResult> BeginNumber(int number) {
    return Begin(BeginOf("order-" + std::to_string(number), 1));
  }
};

TEST_F(BoundsTest, BeginPastTheQueuesRoomIsOverloadedAtOnce) {
  options_.queue_max_items = 8;
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(BeginNumber(i).IsAnswered());
  EXPECT_EQ(BeginNumber(6).Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kOverloaded), 1);
  Step();
}

TEST_F(BoundsTest, CompleteHasTheQueuesLastQuarter) {
  options_.queue_max_items = 8;
  for (int i = 0; i < 6; ++i) BeginNumber(i);
  EXPECT_FALSE(Owner(CompleteOf("a", 1)).IsAnswered());
  EXPECT_FALSE(Owner(RenewOf("b", 1)).IsAnswered());
  EXPECT_EQ(Owner(CompleteOf("c", 1)).Failed(), Fault::kOverloaded);
  Step();
}

// What settings must leave room for (server/app/tuning.cc).
TEST(LargestOwnerCall, IsWhatTheLargestFailHolds) {
  Outcome outcome;
  outcome.body = std::string(kDefaultOutcomeBodyBytes, 'b');
  outcome.content_type = std::string(kMaxContentTypeBytes, 'c');
  outcome.response_id = std::string(kMaxResponseIdBytes, 'r');
  outcome.headers.resize(kMaxHeaders);
  for (Header& header : outcome.headers) {
    header.name = std::string(kMaxHeaderNameBytes, 'n');
    header.value = std::string(kMaxHeadersBytes / kMaxHeaders - kMaxHeaderNameBytes, 'v');
  }
  Failure failure;
  failure.code = std::string(kMaxFailureCodeBytes, 'c');
  failure.message = std::string(kMaxFailureMessageBytes, 'm');
  failure.outcome = std::move(outcome);
  OwnerItem item;
  item.key = {std::string(kMaxMerchantIdBytes, 'm'), std::string(kMaxIdempotencyKeyBytes, 'k')};
  item.answer = std::make_shared<const Answer>(std::move(failure));
  const auto call = MakeOwner(std::move(item), {});
  EXPECT_LE(call->bytes, LargestOwnerCallBytes(kDefaultOutcomeBodyBytes));
  EXPECT_GT(call->bytes + kDigestBytes, LargestOwnerCallBytes(kDefaultOutcomeBodyBytes) - 1);
}

TEST_F(BoundsTest, BeginPastTheCallsInFlightIsOverloadedAtOnce) {
  options_.calls_in_flight_max = 4;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(BeginNumber(i).IsAnswered());
  EXPECT_EQ(BeginNumber(3).Failed(), Fault::kOverloaded);
  Step();
}

TEST_F(BoundsTest, CompleteHasTheLastQuarterOfTheCallsInFlight) {
  options_.calls_in_flight_max = 4;
  for (int i = 0; i < 3; ++i) BeginNumber(i);
  EXPECT_FALSE(Owner(CompleteOf("a", 1)).IsAnswered());
  EXPECT_EQ(Owner(CompleteOf("b", 1)).Failed(), Fault::kOverloaded);
  Step();
}

TEST_F(BoundsTest, AnsweredCallMakesRoom) {
  options_.calls_in_flight_max = 1;
  BeginNumber(0);
  Step();
  const auto told = BeginNumber(1);
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
}

TEST_F(BoundsTest, RefusedCallTakesNoRoom) {
  options_.queue_max_items = 1;
  BeginNumber(0);
  EXPECT_EQ(BeginNumber(1).Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kCallsInFlight), 1);
  Step();
}

TEST_F(BoundsTest, LanesShareTheQueuesRoom) {
  options_.lanes = 2;
  options_.queue_max_items = 16;
  int accepted = 0;
  for (int i = 0; i < 100; ++i) accepted += BeginNumber(i).IsAnswered() ? 0 : 1;
  EXPECT_EQ(accepted, 12);
  Step();
}

TEST_F(BoundsTest, GaugesReturnToZero) {
  Start("order-1");
  BeginNumber(2);
  Owner(CompleteOf("order-1", 1));
  Owner(CompleteOf("order-1", 1));
  Lookup("order-1");
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 4);
  EXPECT_GT(Count(LaneMetric::kQueuedBytes), 0);
  EXPECT_EQ(Count(Metric::kCallsInFlight), 4);
  Step();
  Step();
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
  EXPECT_EQ(Count(LaneMetric::kQueuedBytes), 0);
  EXPECT_EQ(Count(Metric::kCallsInFlight), 0);
}

TEST_F(BoundsTest, GaugesReturnToZeroWhenCallsAreReturnedToTheQueue) {
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kInternal, "refused"));
  Begin(BeginOf("order-1", 1));
  Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 1);
  Step();
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
  EXPECT_EQ(Count(LaneMetric::kQueuedBytes), 0);
}

TEST_F(BoundsTest, CallbackMayCallTheEngineAgain) {
  options_.calls_in_flight_max = 1;
  Told<OwnerResult> complete;
  engine().Begin(BeginOf("order-1", 1), Terms(), [&](const absl::StatusOr<BeginResult>& result) {
    ASSERT_TRUE(result.ok());
    engine().Owner(CompleteOf("order-1", 1), Terms(), complete.Done());
  });
  Step();
  Step();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);
}

TEST_F(BoundsTest, DestructionAnswersWhatWasAccepted) {
  const auto begin = BeginNumber(1);
  const auto complete = Owner(CompleteOf("order-2", 1));
  const auto lookup = Lookup("order-3");
  engine_.reset();
  EXPECT_EQ((*begin).verdict, BeginVerdict::kStarted);
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ((*lookup).record, nullptr);
}

TEST_F(BoundsTest, StoreUnavailableIsToldToEveryCallerOfTheBatch) {
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kStoreUnavailable, "away"));
  const auto first = BeginNumber(1);
  const auto second = BeginNumber(2);
  Step();
  EXPECT_EQ(first.Failed(), Fault::kStoreUnavailable);
  EXPECT_EQ(second.Failed(), Fault::kStoreUnavailable);
  EXPECT_EQ(Count(Metric::kStoreUnavailable), 2);
}

TEST_F(BoundsTest, SchemaIncompatibleIsCounted) {
  database_.FailNext(BatchKind::kLookup, MakeFault(Fault::kSchemaIncompatible, "old"));
  const auto told = Lookup("order-1");
  Step();
  EXPECT_EQ(told.Failed(), Fault::kSchemaIncompatible);
  EXPECT_EQ(Count(Metric::kSchemaIncompatible), 1);
}

// Known fault 44: a row that is begun and never finished holds nothing in the engine.
TEST_F(BoundsTest, WorkUnderWayHoldsNoRoom) {
  options_.calls_in_flight_max = 1;
  for (int i = 0; i < 50; ++i) Start("order-" + std::to_string(i));
  EXPECT_EQ(Count(Metric::kCallsInFlight), 0);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
}

}  // namespace
}  // namespace idempotency
