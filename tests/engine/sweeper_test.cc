#include "server/engine/sweeper.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A table of many blocks that notes which ranges are walked, and fails where it is told to.
class WalkedStore : public ModelStore {
 public:
  explicit WalkedStore(ModelDatabase* database) : ModelStore(database) {}

  absl::StatusOr<int64_t> CountBlocks() override {
    if (!count_fault.ok()) return count_fault;
    return blocks;
  }
  absl::StatusOr<std::vector<SweptRecord>> SweepStep(BlockRange range,
                                                     absl::Duration grace) override {
    if (absl::Status status = Note("sweep", range); !status.ok()) return status;
    return ModelStore::SweepStep(range, grace);
  }
  absl::StatusOr<Survey> SurveyStep(BlockRange range) override {
    if (!survey_fault.ok()) return std::exchange(survey_fault, absl::OkStatus());
    return ModelStore::SurveyStep(range);
  }
  absl::StatusOr<int64_t> PurgeStep(BlockRange range) override {
    if (absl::Status status = Note("purge", range); !status.ok()) return status;
    return ModelStore::PurgeStep(range);
  }
  absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(BlockRange range,
                                                              absl::Duration max_age) override {
    if (absl::Status status = Note("unsettled", range); !status.ok()) return status;
    return ModelStore::PurgeUnsettledStep(range, max_age);
  }

  int64_t blocks = 1;
  absl::Status count_fault;
  absl::Status step_fault;    // of the next step
  absl::Status survey_fault;  // of the next survey
  std::vector<std::string> steps;

 private:
  absl::Status Note(const char* kind, BlockRange range) {
    steps.push_back(absl::StrCat(kind, " ", range.first, "-", range.last));
    return std::exchange(step_fault, absl::OkStatus());
  }
};

class SweeperTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    options_.maintenance_step_blocks = 10;
    options_.sweep_interval = absl::Minutes(1);
    options_.purge_interval = absl::Minutes(1);
  }
  Sweeper& sweeper() {
    if (sweeper_ == nullptr) {
      auto store = std::make_unique<WalkedStore>(&database_);
      store_ = store.get();
      sweeper_ =
          std::make_unique<Sweeper>(options_, std::move(store), &clock_, &metrics_, &events_);
    }
    return *sweeper_;
  }
  WalkedStore& store() {
    sweeper();
    return *store_;
  }
  // Steps until nothing is due.
  void WalkAll() {
    while (sweeper().Step() <= options_.maintenance_pause) {
    }
  }
  void PutAbandoned(absl::string_view key) {
    const BeginItem item = BeginOf(key, 1);
    store().BeginBatch({&item});
  }

  std::unique_ptr<Sweeper> sweeper_;
  WalkedStore* store_ = nullptr;
};

TEST_F(SweeperTest, WalksAllBlocksInRanges) {
  store().blocks = 25;
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-10", "purge 0-10", "sweep 10-20", "purge 10-20",
                                         "sweep 20-25", "purge 20-25"));
}

TEST_F(SweeperTest, RangeEndsAtTheLastBlock) {
  store().blocks = 10;
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-10", "purge 0-10"));
}

TEST_F(SweeperTest, EmptyTableIsNoStep) {
  store().blocks = 0;
  WalkAll();
  EXPECT_THAT(store().steps, IsEmpty());
}

TEST_F(SweeperTest, StepsArePaced) {
  store().blocks = 25;
  EXPECT_EQ(sweeper().Step(), options_.maintenance_pause);
}

TEST_F(SweeperTest, PausesUntilTheNextWalk) {
  WalkAll();
  EXPECT_EQ(sweeper().Step(), absl::Minutes(1));
}

TEST_F(SweeperTest, WalksAgainAfterTheInterval) {
  WalkAll();
  store().steps.clear();
  clock_.Advance(absl::Minutes(1) - absl::Milliseconds(1));
  sweeper().Step();
  EXPECT_THAT(store().steps, IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-1", "purge 0-1"));
}

TEST_F(SweeperTest, NewWalkSeesTheGrownTable) {
  WalkAll();
  store().steps.clear();
  store().blocks = 12;
  clock_.Advance(absl::Minutes(1));
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-10", "purge 0-10", "sweep 10-12", "purge 10-12"));
}

TEST_F(SweeperTest, MarksAbandonedAttemptsAfterTheGrace) {
  PutAbandoned("order-1");
  Advance(absl::Seconds(62) + options_.sweep_grace + absl::Milliseconds(1));
  WalkAll();
  EXPECT_EQ(database_.Find(Key("order-1"))->state, RecordState::kSwept);
  EXPECT_THAT(events_.Seen(), ElementsAre("swept order-1"));
  EXPECT_EQ(Count(Metric::kSwept), 1);
}

TEST_F(SweeperTest, LeavesAttemptsWithinTheGrace) {
  PutAbandoned("order-1");
  Advance(absl::Seconds(62) + options_.sweep_grace);
  WalkAll();
  EXPECT_EQ(database_.Find(Key("order-1"))->state, RecordState::kInProgress);
}

TEST_F(SweeperTest, PurgesExpiredRecords) {
  PutAbandoned("order-1");
  const OwnerItem complete = CompleteOf("order-1", 1);
  store().OwnerBatch({&complete});
  Advance(absl::Hours(24) + absl::Seconds(3));
  WalkAll();
  EXPECT_FALSE(database_.Find(Key("order-1")).has_value());
  EXPECT_EQ(Count(Metric::kPurged), 1);
}

// Known fault 46.
TEST_F(SweeperTest, NeverPurgesUnfinishedWorkByAge) {
  PutAbandoned("order-1");
  Advance(absl::Hours(24 * 365));
  WalkAll();
  EXPECT_TRUE(database_.Find(Key("order-1")).has_value());
}

TEST_F(SweeperTest, PurgesUnsettledRecordsOnlyWhenSet) {
  options_.purge_unsettled_after = absl::Hours(24 * 90);
  PutAbandoned("order-1");
  Advance(absl::Hours(24 * 90) + absl::Seconds(3));
  WalkAll();
  EXPECT_FALSE(database_.Find(Key("order-1")).has_value());
  EXPECT_EQ(Count(Metric::kPurgedUnsettled), 1);
  EXPECT_THAT(events_.Seen(), testing::Contains("purged order-1"));
}

// Tests ask for ages that no setting allows.
TEST_F(SweeperTest, AnyAgeAboveZeroWillDo) {
  options_.purge_unsettled_after = absl::Milliseconds(1);
  PutAbandoned("order-1");
  Advance(absl::Minutes(10));
  WalkAll();
  EXPECT_FALSE(database_.Find(Key("order-1")).has_value());
}

TEST_F(SweeperTest, FailedRangeIsReportedAndSkipped) {
  store().blocks = 20;
  store().step_fault = MakeFault(Fault::kInternal, "bad block");
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-10", "purge 0-10", "sweep 10-20", "purge 10-20"));
  EXPECT_THAT(events_.Seen(), ElementsAre("failed bad block"));
  EXPECT_EQ(Count(Metric::kMaintenanceFailed), 1);
}

TEST_F(SweeperTest, WalkIsGivenUpWhenTheDatabaseIsAway) {
  store().blocks = 20;
  store().step_fault = MakeFault(Fault::kStoreUnavailable, "away");
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-10", "purge 0-10", "purge 10-20"));
}

TEST_F(SweeperTest, WalkThatCannotStartIsReportedAndTriedAfterTheInterval) {
  store().count_fault = MakeFault(Fault::kStoreUnavailable, "away");
  WalkAll();
  EXPECT_THAT(events_.Seen(), ElementsAre("failed away", "failed away"));
  store().count_fault = absl::OkStatus();
  clock_.Advance(absl::Minutes(1));
  WalkAll();
  EXPECT_THAT(store().steps, ElementsAre("sweep 0-1", "purge 0-1"));
}

TEST_F(SweeperTest, SurveyIsShownWhenTheWalkHasSeenEverything) {
  store().blocks = 20;
  PutAbandoned("order-1");
  Advance(absl::Seconds(90));
  PutAbandoned("order-2");
  sweeper().Step();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 0) << "half of it is not seen yet";
  WalkAll();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 2);
  EXPECT_EQ(Count(Metric::kRecordsLeaseOver), 1);
  EXPECT_EQ(Count(Metric::kRecordsAbandoned), 0);
  EXPECT_EQ(Count(Metric::kOldestInProgress), 90);
  EXPECT_EQ(Count(Metric::kSweepWalks), 1);
}

TEST_F(SweeperTest, SurveyIsNewWithEveryWalk) {
  PutAbandoned("order-1");
  WalkAll();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 1);
  Advance(absl::Seconds(62) + options_.sweep_grace + absl::Minutes(1));
  WalkAll();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 0);
  EXPECT_EQ(Count(Metric::kOldestInProgress), 0);
  EXPECT_EQ(Count(Metric::kRecordsAbandoned), 1) << "the sweep marked it just before";
}

TEST_F(SweeperTest, SurveyCountsExpiredRecordsBeforeTheyArePurged) {
  PutAbandoned("order-1");
  const OwnerItem complete = CompleteOf("order-1", 1);
  store().OwnerBatch({&complete});
  Advance(absl::Hours(24) + absl::Seconds(3));
  WalkAll();
  EXPECT_EQ(Count(Metric::kPurgeBacklog), 1);
  Advance(absl::Minutes(1));
  WalkAll();
  EXPECT_EQ(Count(Metric::kPurgeBacklog), 0);
}

TEST_F(SweeperTest, WalkThatMissedARangeShowsNothing) {
  store().blocks = 20;
  PutAbandoned("order-1");
  store().survey_fault = MakeFault(Fault::kInternal, "cannot count");
  WalkAll();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 0);
  EXPECT_EQ(Count(Metric::kSweepWalks), 0);
  EXPECT_EQ(Count(Metric::kMaintenanceFailed), 1);
  Advance(absl::Minutes(1));
  WalkAll();
  EXPECT_EQ(Count(Metric::kRecordsInProgress), 1);
  EXPECT_EQ(Count(Metric::kSweepWalks), 1);
}

TEST_F(SweeperTest, WalkThatIsGivenUpShowsNothing) {
  PutAbandoned("order-1");
  store().step_fault = MakeFault(Fault::kStoreUnavailable, "away");
  WalkAll();
  EXPECT_EQ(Count(Metric::kSweepWalks), 0);
}

TEST_F(SweeperTest, StopEndsTheThread) {
  std::thread thread([&sweeper = sweeper()] { sweeper.Run(); });
  sweeper().Stop();
  thread.join();
}

}  // namespace
}  // namespace idempotency
