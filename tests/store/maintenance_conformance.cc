// Sweep and purge, and that they judge by the same predicate as every call.

#include <gtest/gtest.h>

#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

constexpr absl::Duration kGrace = absl::Minutes(5);

TEST_P(StoreConformance, IdentityIsKnownFromTheFirstCallOn) {
  const std::unique_ptr<Store> other = subject().Connect();
  EXPECT_FALSE(other->Identity().has_value());
  Begin("order-1", 1);
  EXPECT_TRUE(other->CountBlocks().ok());
  EXPECT_TRUE(other->Identity().has_value());
  EXPECT_EQ(other->Identity(), store().Identity());
}

TEST_P(StoreConformance, SweepMarksWhatWasOverForLongerThanTheGrace) {
  const BeginResult first = Begin("order-1", 1);
  AdvanceClock(kLease + kMargin + kGrace);
  EXPECT_TRUE(Sweep(kGrace).empty());
  AdvanceClock(kMicro);
  const std::vector<SweptRecord> swept = Sweep(kGrace);
  ASSERT_EQ(swept.size(), 1u);
  EXPECT_EQ(swept[0].key, Key("order-1"));
  EXPECT_EQ(swept[0].created_at, first.record->created_at);
  EXPECT_EQ(swept[0].attempt_number, 1);
  EXPECT_EQ(swept[0].state, RecordState::kSwept);
  EXPECT_EQ(Lookup("order-1")->state, RecordState::kSwept);
}

TEST_P(StoreConformance, SweepMarksOnlyOnceAndChangesNothingElse) {
  Begin("order-1", 1);
  PassLease();
  Record expected = *Lookup("order-1");
  ASSERT_EQ(Sweep(absl::ZeroDuration()).size(), 1u);
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
  expected.state = RecordState::kSwept;
  EXPECT_EQ(Stored("order-1"), Describe(expected));
}

TEST_P(StoreConformance, SweepLeavesEverythingElseAlone) {
  for (const char* key : {"completed", "failed", "released", "unknown"}) Begin(key, 1);
  Complete("completed", 1);
  Fail("failed", 1, Disposition::kFinal);
  Fail("released", 1, Disposition::kNotApplied);
  Fail("unknown", 1, Disposition::kUnknown);
  AdvanceClock(absl::Hours(2));
  Begin("at-work", 1);
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
}

TEST_P(StoreConformance, NoAnswerDependsOnTheSweepersMark) {
  for (const char* key : {"marked", "plain"}) Begin(key, 1);
  PassLease();
  ASSERT_EQ(Sweep(absl::ZeroDuration()).size(), 2u);
  Renew("plain", 1);
  PassLease();
  ASSERT_EQ(Lookup("plain")->state, RecordState::kInProgress);
  for (const char* key : {"marked", "plain"}) {
    const BeginResult resumed = Begin(key, 1);
    EXPECT_TRUE(resumed.repeated) << key;
    EXPECT_EQ(resumed.record->unknown_attempts, 1) << key;
    EXPECT_EQ(resumed.record->state, RecordState::kInProgress) << key;
  }
}

TEST_P(StoreConformance, LookupStillReadsARecordAtTheVeryEndOfItsLeaseAndRetention) {
  Begin("order-1", 1);
  AdvanceClock(kLease + kMargin);
  EXPECT_FALSE(IsAbandoned(*Lookup("order-1"), {.now = Now()}, TestPolicy()));
  AdvanceClock(kMicro);
  EXPECT_TRUE(IsAbandoned(*Lookup("order-1"), {.now = Now()}, TestPolicy()));
  Complete("order-1", 1);
  const absl::Time end = ExpiresAt(*Lookup("order-1"), TestPolicy()) + kMargin;
  AdvanceClock(end - Now());
  EXPECT_FALSE(IsExpired(*Lookup("order-1"), {.now = Now()}, TestPolicy()));
  AdvanceClock(kMicro);
  EXPECT_TRUE(IsExpired(*Lookup("order-1"), {.now = Now()}, TestPolicy()));
}

// At the instant at which a record is still replayed it is not purged either, and from the next
// microsecond on it is both free and purged: one predicate.
TEST_P(StoreConformance, PurgeAndBeginAgreeOnTheInstantOfExpiry) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin);
  EXPECT_EQ(Purge(), 0);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  AdvanceClock(kMicro);
  EXPECT_EQ(Purge(), 1);
  EXPECT_EQ(Lookup("order-1"), nullptr);
}

TEST_P(StoreConformance, SweepAndBeginAgreeOnTheInstantAtWhichALeaseIsOver) {
  Begin("order-1", 1);
  AdvanceClock(kLease + kMargin);
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  AdvanceClock(kMicro);
  EXPECT_EQ(Sweep(absl::ZeroDuration()).size(), 1u);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, PurgeWaitsForTheReplayWindow) {
  BeginItem item = Request("order-1", 1);
  item.ttl = absl::Minutes(1);
  Begin(item);
  AdvanceClock(absl::Seconds(30));
  Fail("order-1", 1, Disposition::kFinal);
  AdvanceClock(kReplayWindow + kMargin);
  EXPECT_EQ(Purge(), 0);
  AdvanceClock(kMicro);
  EXPECT_EQ(Purge(), 1);
}

TEST_P(StoreConformance, PurgeDeletesSettledRecordsOnly) {
  for (const char* key : {"abandoned", "swept", "completed", "failed", "released", "unknown",
                          "released-after-unknown", "resumed-released"}) {
    Begin(key, 1);
  }
  BeginItem held = Request("held", 1);
  held.hold = true;
  Begin(held);
  Complete("completed", 1);
  Fail("failed", 1, Disposition::kFinal);
  Fail("released", 1, Disposition::kNotApplied);
  Fail("unknown", 1, Disposition::kUnknown);
  PassLease();
  Begin("released-after-unknown", 2);
  Fail("released-after-unknown", 2, Disposition::kNotApplied);
  Begin("resumed-released", 1);
  Fail("resumed-released", 1, Disposition::kNotApplied);
  AdvanceClock(absl::Hours(24 * 365));
  Sweep(absl::ZeroDuration());
  EXPECT_EQ(Purge(), 3);
  EXPECT_EQ(Lookup("completed"), nullptr);
  EXPECT_EQ(Lookup("failed"), nullptr);
  EXPECT_EQ(Lookup("released"), nullptr);
  for (const char* key :
       {"abandoned", "swept", "unknown", "released-after-unknown", "resumed-released", "held"}) {
    EXPECT_NE(Lookup(key), nullptr) << key;
  }
}

TEST_P(StoreConformance, SettledHeldRecordIsPurged) {
  BeginItem held = Request("order-1", 1);
  held.hold = true;
  Begin(held);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin + kMicro);
  EXPECT_EQ(Purge(), 1);
}

TEST_P(StoreConformance, KeyThatWasBegunAnewSurvivesThePurge) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin + kMicro);
  Begin("order-1", 2);
  EXPECT_EQ(Purge(), 0);
  EXPECT_EQ(Lookup("order-1")->attempt, Attempt(2));
}

TEST_P(StoreConformance, CompletedAttemptOfATakenOverRecordIsPurged) {
  Begin("order-1", 1);
  PassLease();
  Begin("order-1", 2);
  Complete("order-1", 2);
  AdvanceClock(kTtl);
  EXPECT_EQ(Purge(), 1);
}

TEST_P(StoreConformance, FinishAfterThePurgeFindsNoRecord) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin + kMicro);
  Purge();
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, MaintenanceKeepsToItsBlocks) {
  Begin("order-1", 1);
  Begin("order-2", 1);
  Complete("order-2", 1);
  AdvanceClock(absl::Hours(48));
  const BlockRange nothing = {0, 0};
  const BlockRange past_the_end = {1'000'000, 1'000'256};
  for (const BlockRange range : {nothing, past_the_end}) {
    EXPECT_TRUE(store().SweepStep(range, absl::ZeroDuration())->empty());
    EXPECT_EQ(store().SurveyStep(range)->in_progress, 0);
    EXPECT_EQ(*store().PurgeStep(range), 0);
    EXPECT_TRUE(store().PurgeUnsettledStep(range, absl::Hours(1))->empty());
  }
  EXPECT_EQ(Purge(), 1);
}

TEST_P(StoreConformance, SurveyCountsWhatSweepAndPurgeHaveBeforeThem) {
  Begin("oldest", 1);
  AdvanceClock(absl::Seconds(10));
  for (const char* key : {"in-progress", "completed", "final", "released", "unknown"}) {
    Begin(key, 1);
  }
  Complete("completed", 1);
  Fail("final", 1, Disposition::kFinal);
  Fail("released", 1, Disposition::kNotApplied);
  Fail("unknown", 1, Disposition::kUnknown);
  const Survey at_first = WholeSurvey();
  EXPECT_EQ(at_first.in_progress, 2);
  EXPECT_EQ(at_first.lease_over, 0);
  EXPECT_EQ(at_first.abandoned, 1);
  EXPECT_EQ(at_first.expired, 0);
  EXPECT_GE(at_first.oldest_in_progress, absl::Seconds(10));
  EXPECT_LT(at_first.oldest_in_progress, absl::Seconds(10) + absl::Minutes(5));
  PassLease();
  EXPECT_EQ(WholeSurvey().lease_over, 2);
  EXPECT_EQ(WholeSurvey().in_progress, 2);
  ASSERT_EQ(store().SweepStep(WholeTable(), absl::ZeroDuration())->size(), 2u);
  const Survey swept = WholeSurvey();
  EXPECT_EQ(swept.in_progress, 0);
  EXPECT_EQ(swept.lease_over, 0);
  EXPECT_EQ(swept.abandoned, 3);
  EXPECT_EQ(swept.oldest_in_progress, absl::ZeroDuration());
  AdvanceClock(kTtl + kMargin + kMicro);
  EXPECT_EQ(WholeSurvey().expired, 3);
  EXPECT_EQ(Purge(), 3);
  EXPECT_EQ(WholeSurvey().expired, 0);
  EXPECT_EQ(WholeSurvey().abandoned, 3);
}

TEST_P(StoreConformance, SurveyOfAnEmptyTableIsAllZero) {
  const Survey survey = WholeSurvey();
  EXPECT_EQ(survey.in_progress, 0);
  EXPECT_EQ(survey.expired, 0);
  EXPECT_EQ(survey.oldest_in_progress, absl::ZeroDuration());
}

TEST_P(StoreConformance, OldUnsettledRecordsAreDeletedByAgeAndNeverThoseWithHold) {
  const absl::Duration age = absl::Hours(24 * 90);
  for (const char* key : {"abandoned", "unknown", "released-after-unknown", "completed"}) {
    Begin(key, 1);
  }
  BeginItem held = Request("held", 1);
  held.hold = true;
  Begin(held);
  Fail("unknown", 1, Disposition::kUnknown);
  Complete("completed", 1);
  const absl::Time begun = Now();
  PassLease();
  Begin("released-after-unknown", 2);
  Fail("released-after-unknown", 2, Disposition::kNotApplied);
  AdvanceClock(begun + age - Now());
  EXPECT_TRUE(PurgeUnsettled(age).empty());
  AdvanceClock(kMicro);
  const std::vector<SweptRecord> purged = PurgeUnsettled(age);
  EXPECT_EQ(purged.size(), 3u);
  for (const SweptRecord& record : purged) EXPECT_EQ(record.created_at, begun);
  EXPECT_NE(Lookup("held"), nullptr);
  EXPECT_NE(Lookup("completed"), nullptr);
}

TEST_P(StoreConformance, OldRecordWhoseAttemptIsAtWorkIsNotDeletedByAge) {
  Begin("order-1", 1);
  AdvanceClock(absl::Hours(24 * 91));
  Renew("order-1", 1);
  EXPECT_TRUE(PurgeUnsettled(absl::Hours(24 * 90)).empty());
  AdvanceClock(kLease + kMargin);
  EXPECT_TRUE(PurgeUnsettled(absl::Hours(24 * 90)).empty());
  AdvanceClock(kMicro);
  EXPECT_EQ(PurgeUnsettled(absl::Hours(24 * 90)).size(), 1u);
}

TEST_P(StoreConformance, CheckIsOkOnAHealthyDatabase) {
  const absl::Status status = store().Check();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace idempotency
