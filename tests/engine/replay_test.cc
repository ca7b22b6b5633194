// Replays from memory: when the engine answers without the database, and when it must not.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

class ReplayTest : public EngineTest {
 protected:
  // A key that was begun, completed, and replayed once, which takes it into the cache.
  void Replayed(absl::string_view key, absl::Duration ttl = absl::Seconds(1)) {
    BeginItem item = BeginOf(key, 1);
    item.ttl = ttl;
    Begin(std::move(item));
    Step();
    Owner(CompleteOf(key, 1));
    Step();
    // A lane learns of the database with its first batch, and keeps what it reads from then on.
    const auto read = Begin(BeginOf(key, 2));
    EXPECT_FALSE(read.IsAnswered());
    Step();
    EXPECT_EQ((*read).verdict, BeginVerdict::kReplay);
  }
  // The same, and read again 40 s before its retention ends: within the cache's age.
  void ReplayedNearItsEnd(absl::string_view key) {
    Replayed(key);
    Advance(options_.policy.replay_window - absl::Seconds(40));
    EXPECT_FALSE(IsAnsweredAtTheDoor(key));
    EXPECT_TRUE(IsAnsweredAtTheDoor(key));
  }
  // Whether a Begin is answered before Begin returns; if so, it must be a replay.
  bool IsAnsweredAtTheDoor(BeginItem item) {
    const size_t batches = database_.Batches().size();
    const auto told = Begin(std::move(item));
    const bool is_answered = told.IsAnswered();
    if (is_answered) {
      EXPECT_EQ((*told).verdict, BeginVerdict::kReplay);
      EXPECT_EQ(database_.Batches().size(), batches);
    }
    Step();
    return is_answered;
  }
  bool IsAnsweredAtTheDoor(absl::string_view key) { return IsAnsweredAtTheDoor(BeginOf(key, 9)); }
  BeginResult Begun(BeginItem item) {
    const auto told = Begin(std::move(item));
    Step();
    return *told;
  }
  BeginResult Elsewhere(const BeginItem& item) {
    const BeginItem* const items[] = {&item};
    return *ModelStore(&database_).BeginBatch(items)[0];
  }
};

TEST_F(ReplayTest, SecondReplayNeedsNoDatabase) {
  Replayed("order-1");
  const auto told = Begin(BeginOf("order-1", 3));
  ASSERT_TRUE(told.IsAnswered());
  EXPECT_EQ((*told).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(std::get<Outcome>(*(*told).record->answer).body, "the answer to order-1");
  EXPECT_NE((*told).memo, nullptr);
  EXPECT_EQ(Count(Metric::kBeginReplay), 2);
  EXPECT_EQ(Count(Metric::kCacheHits), 1);
}

TEST_F(ReplayTest, OwnAttemptIsReplayedToo) {
  Replayed("order-1");
  EXPECT_TRUE(IsAnsweredAtTheDoor(BeginOf("order-1", 1)));
}

TEST_F(ReplayTest, WaitingBeginIsAnsweredAtTheDoor) {
  Replayed("order-1");
  EXPECT_TRUE(Begin(BeginOf("order-1", 3), Terms(absl::Seconds(20))).IsAnswered());
  EXPECT_EQ(Count(Metric::kWaiting), 0);
}

TEST_F(ReplayTest, FinalFailureIsReplayedAtTheDoor) {
  Start("order-1");
  Owner(FailOf("order-1", 1, Disposition::kFinal));
  Step();
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, NothingButFinalRecordsIsKept) {
  Start("order-1");
  Owner(FailOf("order-1", 1, Disposition::kNotApplied));
  Step();
  EXPECT_EQ(Begun(BeginOf("order-1", 2)).verdict, BeginVerdict::kStarted);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
  EXPECT_EQ(Count(Metric::kCacheInsertions), 0);
}

TEST_F(ReplayTest, OtherBodyIsRefusedByTheDatabase) {
  Replayed("order-1");
  const auto told = Begin(BeginOf("order-1", 3, /*body=*/2));
  EXPECT_FALSE(told.IsAnswered());
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kKeyReused);
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1")) << "and drops nothing";
}

TEST_F(ReplayTest, OtherMerchantHasItsOwnKeys) {
  Replayed("order-1");
  BeginItem item = BeginOf("order-1", 3);
  item.key.merchant_id = "other";
  EXPECT_EQ(Begun(std::move(item)).verdict, BeginVerdict::kStarted);
}

TEST_F(ReplayTest, LookupIsAlwaysReadFromTheDatabase) {
  Replayed("order-1");
  const auto told = Lookup("order-1");
  EXPECT_FALSE(told.IsAnswered());
  Step();
  EXPECT_TRUE(told.IsAnswered());
}

TEST_F(ReplayTest, ReplayTakesNoRoom) {
  options_.calls_in_flight_max = 4;
  Replayed("order-1");
  for (int i = 0; i < 3; ++i) Begin(BeginOf("other-" + std::to_string(i), 1));
  EXPECT_EQ(Begin(BeginOf("other-9", 1)).Failed(), Fault::kOverloaded);
  const auto told = Begin(BeginOf("order-1", 3));
  EXPECT_EQ((*told).verdict, BeginVerdict::kReplay);
  Step();
}

TEST_F(ReplayTest, ReplayNeedsNoDatabaseThatAnswers) {
  Replayed("order-1");
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kStoreUnavailable, "away"));
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, DrainingRefusesReplaysAsEveryCall) {
  Replayed("order-1");
  engine().Drain();
  EXPECT_EQ(Begin(BeginOf("order-1", 3)).Failed(), Fault::kDraining);
}

TEST_F(ReplayTest, WithoutTheCacheEveryReplayIsRead) {
  options_.cache_max_bytes = 0;
  Replayed("order-1");
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, RestartedReplicaReadsAgain) {
  Replayed("order-1");
  engine_.reset();
  EXPECT_EQ(Count(Metric::kCacheEntries), 0);
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, DeletionElsewhereTakesEffectWithinMaxAge) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  Advance(options_.cache_max_age - absl::Milliseconds(1));
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1"));
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kStarted);
}

// For every millisecond around the end, with the database's clock ahead by as much as the margins
// allow: whenever the database would begin the key anew, the cache is silent.
TEST_F(ReplayTest, KeyThatAnotherReplicaMayBeginAnewIsNeverReplayed) {
  ReplayedNearItsEnd("order-1");
  const Record record = *database_.Find(Key("order-1"));
  database_.AdvanceClock(2 * options_.policy.skew_margin - absl::Milliseconds(1));
  bool was_silent = false;
  for (int i = 0; i < 45'000; i += 50) {
    const auto told = Begin(BeginOf("order-1", 9));
    if (told.IsAnswered()) {
      ASSERT_FALSE(IsExpired(record, {.now = database_.Now()}, options_.policy)) << i;
      ASSERT_FALSE(was_silent);
    } else {
      was_silent = true;
      break;
    }
    Advance(absl::Milliseconds(50));
  }
  EXPECT_TRUE(was_silent);
  Step();
}

TEST_F(ReplayTest, KeyBegunAnewElsewhereIsSeen) {
  ReplayedNearItsEnd("order-1");
  Advance(absl::Seconds(42) + absl::Milliseconds(1));
  ASSERT_EQ(Elsewhere(BeginOf("order-1", 7)).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kInProgress);
}

// The process stood still: only the boot clock ran on.
TEST_F(ReplayTest, SuspendedReplicaDoesNotReplayWhatExpiredMeanwhile) {
  ReplayedNearItsEnd("order-1");
  database_.AdvanceClock(absl::Minutes(5));
  ASSERT_EQ(Elsewhere(BeginOf("order-1", 7)).verdict, BeginVerdict::kStarted);
  clock_.Advance(absl::Minutes(5));
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kInProgress);
}

TEST_F(ReplayTest, KeyThatThisReplicaBeginsAnewIsForgotten) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  EXPECT_EQ(Begun(BeginOf("order-1", 3, /*body=*/2)).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begun(BeginOf("order-1", 4)).verdict, BeginVerdict::kKeyReused);
}

TEST_F(ReplayTest, KeyThatThisReplicaMayHaveBegunAnewIsForgotten) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  database_.FailNext(BatchKind::kBegin, MakeFault(Fault::kCommitUnknown, "lost"),
                     FaultMoment::kAfterCommit);
  const auto unknown = Begin(BeginOf("order-1", 3, /*body=*/2));
  Step();
  EXPECT_EQ(unknown.Failed(), Fault::kCommitUnknown);
  EXPECT_EQ(Begun(BeginOf("order-1", 4)).verdict, BeginVerdict::kKeyReused);
}

TEST_F(ReplayTest, LookupThatFindsNothingMakesTheReplicaForget) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  Lookup("order-1");
  Step();
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kStarted);
}

TEST_F(ReplayTest, OwnerThatFindsAnotherRecordMakesTheReplicaForget) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  database_.AdvanceClock(absl::Microseconds(1));
  Elsewhere(BeginOf("order-1", 7));
  Owner(RenewOf("order-1", 7));
  Step();
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kInProgress);
}

TEST_F(ReplayTest, OwnerWhoseCommitIsUnknownMakesTheReplicaForget) {
  Replayed("order-1", absl::Hours(24));
  database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kCommitUnknown, "lost"));
  Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, SlowLanesStartIsForgotten) {
  Replayed("order-1", absl::Hours(24));
  database_.Erase(Key("order-1"));
  database_.FailKey(Key("order-1"), MakeFault(Fault::kLockTimeout, "locked"));
  const auto slow = Begin(BeginOf("order-1", 3, /*body=*/2));
  Step();
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1"));
  database_.ClearKeyFault(Key("order-1"));
  Advance(absl::Seconds(1));
  Step();
  EXPECT_EQ((*slow).verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, OtherTimelineEmptiesTheCacheWithTheNextBatch) {
  Replayed("order-1", absl::Hours(24));
  database_.SetIdentity({.system_identifier = 1, .timeline = 2});
  database_.Erase(Key("order-1"));
  Start("order-2");
  EXPECT_EQ(Begun(BeginOf("order-1", 3)).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Count(Metric::kCacheResets), 1);
}

TEST_F(ReplayTest, OtherTimelineEmptiesTheCacheWhenSomebodyElseSeesIt) {
  Replayed("order-1", absl::Hours(24));
  engine().ObserveDatabase({.system_identifier = 1, .timeline = 2});
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1"));
}

TEST_F(ReplayTest, BatchOverWhichTheDatabaseChangedIsNotKept) {
  Replayed("order-1", absl::Hours(24));
  database_.SetIdentity({.system_identifier = 1, .timeline = 2});
  const auto told = Begin(BeginOf("order-1", 3, /*body=*/2));  // the batch that meets it
  Step();
  EXPECT_EQ((*told).verdict, BeginVerdict::kKeyReused);
  database_.SetIdentity({.system_identifier = 1, .timeline = 3});
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1")) << "a replay of a batch with two databases";
  EXPECT_FALSE(IsAnsweredAtTheDoor("order-1")) << "is not kept";
  EXPECT_TRUE(IsAnsweredAtTheDoor("order-1")) << "the next one's is";
}

}  // namespace
}  // namespace idempotency
