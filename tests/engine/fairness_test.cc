// What one merchant's flood does to another's calls: nothing, in the engine as a whole.
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class FairnessTest : public EngineTest {
 protected:
  Told<BeginResult> BeginFor(absl::string_view merchant, int number) {
    BeginItem item = BeginOf("", 1);
    item.key = Key("order-" + std::to_string(number), merchant);
    return Begin(std::move(item));
  }
  Told<LookupResult> LookupFor(absl::string_view merchant, int number) {
    Told<LookupResult> told;
    engine().Lookup({Key("order-" + std::to_string(number), merchant)}, Terms(), told.Done());
    return told;
  }
  std::vector<Told<BeginResult>> Flood(int count) {
    std::vector<Told<BeginResult>> told;
    for (int i = 0; i < count; ++i) told.push_back(BeginFor("flood", i));
    return told;
  }
};

TEST_F(FairnessTest, AnothersBeginIsInTheNextBatch) {
  options_.batch_max_items = 4;
  const auto flood = Flood(1000);
  const auto other = BeginFor("other", 1);
  Step();
  EXPECT_EQ((*other).verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(flood[2].IsAnswered());
  EXPECT_FALSE(flood[3].IsAnswered());
}

TEST_F(FairnessTest, AnothersLookupIsInTheNextBatch) {
  options_.batch_max_items = 4;
  for (int i = 0; i < 1000; ++i) LookupFor("flood", i);
  const auto other = LookupFor("other", 1);
  Step();
  EXPECT_TRUE(other.IsAnswered());
}

TEST_F(FairnessTest, FloodIsServedInFullTooWhileOthersCome) {
  options_.batch_max_items = 2;
  const auto flood = Flood(20);
  for (int i = 0; i < 20; ++i) {
    BeginFor("other", i);
    Step();
  }
  for (const auto& told : flood) EXPECT_TRUE(told.IsAnswered());
}

TEST_F(FairnessTest, MerchantAloneMayFillTheQueue) {
  options_.queue_max_items = 8;
  const auto flood = Flood(7);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(flood[static_cast<size_t>(i)].IsAnswered());
  EXPECT_EQ(flood[6].Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kQueueFullOfItems), 1);
  EXPECT_EQ(Count(Metric::kQueueShed), 0);
}

TEST_F(FairnessTest, FullQueueTakesAnothersBeginAndShedsTheFloodsNewest) {
  options_.queue_max_items = 8;
  const auto flood = Flood(6);
  const auto other = BeginFor("other", 1);
  EXPECT_EQ(flood[5].Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kQueueShed), 1);
  EXPECT_EQ(Count(Metric::kOverloaded), 1);
  Step();
  EXPECT_EQ((*other).verdict, BeginVerdict::kStarted);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ((*flood[static_cast<size_t>(i)]).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 0);
  EXPECT_EQ(Count(LaneMetric::kQueuedBytes), 0);
  EXPECT_EQ(Count(Metric::kCallsInFlight), 0);
}

TEST_F(FairnessTest, FullQueueIsSharedEquallyAndThenFullForBoth) {
  options_.queue_max_items = 8;
  const auto flood = Flood(6);
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += BeginFor("other", i).IsAnswered() ? 0 : 1;
  EXPECT_EQ(taken, 3);
  int left = 0;
  for (const auto& told : flood) left += told.IsAnswered() ? 0 : 1;
  EXPECT_EQ(left, 3);
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 6);
  EXPECT_EQ(BeginFor("flood", 100).Failed(), Fault::kOverloaded);
  Step();
}

TEST_F(FairnessTest, QueueFullOfBytesIsSharedToo) {
  const auto probe = BeginFor("flood", 1);
  const auto bytes = static_cast<size_t>(Count(LaneMetric::kQueuedBytes));
  engine_.reset();
  options_.queue_max_bytes = 8 * bytes;
  const auto flood = Flood(6);
  EXPECT_EQ(BeginFor("flood", 6).Failed(), Fault::kOverloaded);
  EXPECT_EQ(Count(Metric::kQueueFullOfBytes), 1);
  EXPECT_FALSE(BeginFor("other", 1).IsAnswered());
  EXPECT_EQ(flood[5].Failed(), Fault::kOverloaded);
  Step();
}

TEST_F(FairnessTest, CallTooLargeForWhatCanBeShedCostsNobodyHisPlace) {
  const auto probe = BeginFor("flood", 1);
  const auto bytes = static_cast<size_t>(Count(LaneMetric::kQueuedBytes));
  engine_.reset();
  options_.queue_max_bytes = 4 * bytes;
  const auto flood = Flood(3);
  BeginItem large = BeginOf("", 1);
  large.key = Key("large", "other");
  large.labels["order"] = std::string(3 * bytes, 'x');
  EXPECT_EQ(Begin(std::move(large)).Failed(), Fault::kOverloaded);
  for (const auto& told : flood) EXPECT_FALSE(told.IsAnswered());
  EXPECT_EQ(Count(LaneMetric::kQueuedItems), 3);
  EXPECT_EQ(Count(LaneMetric::kQueuedBytes), static_cast<int64_t>(3 * bytes));
  Step();
  for (const auto& told : flood) EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
}

TEST_F(FairnessTest, CompletesAreNeverShed) {
  options_.queue_max_items = 8;
  std::vector<Told<OwnerResult>> completes;
  for (int i = 0; i < 8; ++i) {
    OwnerItem item = CompleteOf("", 1);
    item.key = Key("order-" + std::to_string(i), "flood");
    completes.push_back(Owner(std::move(item)));
  }
  EXPECT_EQ(BeginFor("other", 1).Failed(), Fault::kOverloaded);
  for (const auto& told : completes) EXPECT_FALSE(told.IsAnswered());
  Step();
}

TEST_F(FairnessTest, FollowersOfAHotKeyAreAnsweredInOneBatch) {
  options_.batch_max_items = 4;
  std::vector<Told<BeginResult>> told;
  for (int i = 0; i < 500; ++i) told.push_back(Begin(BeginOf("hot", i)));
  Step();
  for (const auto& one : told) EXPECT_TRUE(one.IsAnswered());
}

TEST_F(FairnessTest, DrainAnswersWhatTheLaneHasNotTakenYet) {
  options_.batch_max_items = 2;
  const auto flood = Flood(50);
  const auto lookup = LookupFor("other", 1);
  engine().Drain();
  for (const auto& told : flood) EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(lookup.IsAnswered());
}

}  // namespace
}  // namespace idempotency
