// Complete, Fail, Renew, and the evidence of refused ones, through the store.

#include <gtest/gtest.h>

#include "server/record/limit.h"
#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

TEST_P(StoreConformance, CompleteIsRecorded) {
  Begin("order-1", 1);
  AdvanceClock(absl::Seconds(1));
  const OwnerResult done = Complete("order-1", 1);
  EXPECT_EQ(done.verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(done.record->state, RecordState::kCompleted);
  EXPECT_EQ(done.record->finished_at, Now());
  EXPECT_EQ(*done.record->answer, Answer(Paid()));
}

TEST_P(StoreConformance, CompleteLeavesTheRequestAndItsTermsAlone) {
  BeginItem item = Request("order-1", 1);
  item.labels = {{"order", "1"}};
  item.fingerprint_scheme = 1;
  item.hold = true;
  const BeginResult first = Begin(item);
  Complete("order-1", 1);
  const auto record = Lookup("order-1");
  EXPECT_EQ(record->fingerprint, item.fingerprint);
  EXPECT_EQ(record->fingerprint_scheme, 1);
  EXPECT_EQ(record->operation, item.operation);
  EXPECT_EQ(record->labels, item.labels);
  EXPECT_EQ(record->ttl, item.ttl);
  EXPECT_TRUE(record->hold);
  EXPECT_EQ(record->created_at, first.record->created_at);
  EXPECT_EQ(record->fencing_token, first.record->fencing_token);
}

TEST_P(StoreConformance, SecondCompleteWithTheSameContentIsAlreadyRecorded) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  const absl::Time finished = Now();
  AdvanceClock(absl::Seconds(1));
  const OwnerResult again = Complete("order-1", 1);
  EXPECT_EQ(again.verdict, OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(again.record->finished_at, finished);
}

TEST_P(StoreConformance, SecondCompleteWithOtherContentConflictsAndTheFirstStays) {
  Begin("order-1", 1);
  Complete("order-1", 1, Paid(201));
  const std::string before = Stored("order-1");
  EXPECT_EQ(Complete("order-1", 1, Paid(200)).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(Stored("order-1"), before);
}

TEST_P(StoreConformance, FailAfterCompleteDoesNotFreeTheKey) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  for (const Disposition disposition :
       {Disposition::kNotApplied, Disposition::kFinal, Disposition::kUnknown}) {
    EXPECT_EQ(Fail("order-1", 1, disposition).verdict, OwnerVerdict::kOutcomeConflict);
  }
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
}

TEST_P(StoreConformance, CompleteAfterNotAppliedConflicts) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kNotApplied);
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(Fail("order-1", 1, Disposition::kNotApplied).verdict, OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(Fail("order-1", 1, Failed(Disposition::kNotApplied, "other")).verdict,
            OwnerVerdict::kOutcomeConflict);
}

TEST_P(StoreConformance, LateFinishLosesToNewAttempt) {
  Begin("order-1", 1);
  PassLease();
  const BeginResult second = Begin("order-1", 2);
  const std::string before = Stored("order-1");
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_EQ(Fail("order-1", 1, Disposition::kNotApplied).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_EQ(Renew("order-1", 1).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_EQ(Stored("order-1"), before);
  const OwnerResult done = Complete("order-1", 2);
  EXPECT_EQ(done.verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(done.record->attempt_number, second.record->attempt_number);
}

TEST_P(StoreConformance, LateFinishWithoutANewAttemptIsRecorded) {
  Begin("order-1", 1);
  AdvanceClock(absl::Hours(30));
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
}

TEST_P(StoreConformance, LateFinishOfASweptAttemptIsRecorded) {
  Begin("order-1", 1);
  PassLease();
  ASSERT_EQ(Sweep(absl::ZeroDuration()).size(), 1u);
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecorded);
}

TEST_P(StoreConformance, FinishByAStrangerIsLeaseLost) {
  Begin("order-1", 1);
  EXPECT_EQ(Complete("order-1", 2).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_EQ(Renew("order-1", 2).verdict, OwnerVerdict::kLeaseLost);
  Complete("order-1", 1);
  EXPECT_EQ(Complete("order-1", 2).verdict, OwnerVerdict::kLeaseLost);
}

TEST_P(StoreConformance, CallsWithoutARecordFindNone) {
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ(Fail("order-1", 1, Disposition::kFinal).verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ(Renew("order-1", 1).verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ(Lookup("order-1"), nullptr);
}

TEST_P(StoreConformance, UnknownEndsTheLeaseNow) {
  Begin("order-1", 1);
  AdvanceClock(absl::Seconds(10));
  EXPECT_EQ(Fail("order-1", 1, Disposition::kUnknown).verdict, OwnerVerdict::kRecorded);
  const auto record = Lookup("order-1");
  EXPECT_EQ(record->state, RecordState::kFailedUnknown);
  EXPECT_EQ(record->lease_expires_at, Now());
  EXPECT_EQ(record->unknown_attempts, 0);
}

TEST_P(StoreConformance, UnknownDoesNotProlongALeaseThatEnded) {
  const BeginResult first = Begin("order-1", 1);
  PassLease();
  Fail("order-1", 1, Disposition::kUnknown);
  EXPECT_EQ(Lookup("order-1")->lease_expires_at, first.record->lease_expires_at);
}

TEST_P(StoreConformance, CompleteAfterItsOwnUnknownIsRecorded) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  AdvanceClock(absl::Seconds(1));
  const OwnerResult done = Complete("order-1", 1);
  EXPECT_EQ(done.verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(done.record->finished_at, Now());
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
}

TEST_P(StoreConformance, NotAppliedAfterItsOwnUnknownTakesTheUnknownBack) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  Fail("order-1", 1, Disposition::kNotApplied);
  EXPECT_EQ(Begin("order-1", 2).record->unknown_attempts, 0);
}

TEST_P(StoreConformance, UnknownAgainIsAlreadyRecordedOrReplacesTheFirst) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  const absl::Time first = Now();
  AdvanceClock(absl::Seconds(1));
  EXPECT_EQ(Fail("order-1", 1, Disposition::kUnknown).verdict, OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(Lookup("order-1")->finished_at, first);
  const Failure other = Failed(Disposition::kUnknown, "timeout");
  EXPECT_EQ(Fail("order-1", 1, other).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(Lookup("order-1")->finished_at, Now());
  EXPECT_EQ(*Lookup("order-1")->answer, Answer(other));
}

TEST_P(StoreConformance, RenewExtendsTheLease) {
  Begin("order-1", 1);
  AdvanceClock(absl::Seconds(50));
  const OwnerResult renewed = Renew("order-1", 1);
  EXPECT_EQ(renewed.verdict, OwnerVerdict::kRenewed);
  EXPECT_EQ(renewed.record->lease_expires_at, Now() + kLease);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
}

TEST_P(StoreConformance, RenewNeverShortensTheLease) {
  const BeginResult first = Begin("order-1", 1);
  const OwnerResult renewed = Renew("order-1", 1, absl::Seconds(1));
  EXPECT_EQ(renewed.verdict, OwnerVerdict::kRenewed);
  EXPECT_EQ(renewed.record->lease_expires_at, first.record->lease_expires_at);
  EXPECT_EQ(renewed.record->lease_duration, kLease);
}

TEST_P(StoreConformance, RenewOfAnAbandonedAttemptRunsTheLeaseAnewAndCountsNothing) {
  Begin("order-1", 1);
  PassLease();
  Sweep(absl::ZeroDuration());
  EXPECT_EQ(Renew("order-1", 1).verdict, OwnerVerdict::kRenewed);
  const auto record = Lookup("order-1");
  EXPECT_EQ(record->state, RecordState::kInProgress);
  EXPECT_EQ(record->lease_expires_at, Now() + kLease);
  EXPECT_EQ(record->unknown_attempts, 0);
}

TEST_P(StoreConformance, RenewWithUnknownAttemptsGetsWhatTheWindowLeaves) {
  const BeginResult first = Begin("order-1", 1);
  const absl::Time end = first.record->created_at + kTakeoverWindow;
  AdvanceClock(kTakeoverWindow - absl::Seconds(90));
  Begin("order-1", 2);
  AdvanceClock(absl::Seconds(50));
  const OwnerResult renewed = Renew("order-1", 2);
  EXPECT_EQ(renewed.verdict, OwnerVerdict::kRenewed);
  EXPECT_EQ(renewed.record->lease_expires_at, end);
  AdvanceClock(absl::Seconds(40) - kMicro);
  EXPECT_EQ(Renew("order-1", 2).verdict, OwnerVerdict::kRenewed);
  AdvanceClock(kMicro);
  EXPECT_EQ(Renew("order-1", 2).verdict, OwnerVerdict::kNeedsResolution);
}

TEST_P(StoreConformance, RenewAfterFinishOrUnknownIsRefused) {
  for (const char* key : {"completed", "failed", "released", "unknown"}) Begin(key, 1);
  Complete("completed", 1);
  Fail("failed", 1, Disposition::kFinal);
  Fail("released", 1, Disposition::kNotApplied);
  Fail("unknown", 1, Disposition::kUnknown);
  EXPECT_EQ(Renew("completed", 1).verdict, OwnerVerdict::kAlreadyFinished);
  EXPECT_EQ(Renew("failed", 1).verdict, OwnerVerdict::kAlreadyFinished);
  EXPECT_EQ(Renew("released", 1).verdict, OwnerVerdict::kAlreadyFinished);
  EXPECT_EQ(Renew("unknown", 1).verdict, OwnerVerdict::kLeaseLost);
}

TEST_P(StoreConformance, ExpiredRecordAnswersItsOwnerAsBefore) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(absl::Hours(48));
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(Complete("order-1", 1, Paid(200)).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(Renew("order-1", 1).verdict, OwnerVerdict::kAlreadyFinished);
}

TEST_P(StoreConformance, LateFinishOfAnEarlierRecordOfTheKeyIsLeaseLost) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin + kMicro);
  Begin("order-1", 2);
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kLeaseLost);
}

TEST_P(StoreConformance, RefusedOutcomeIsKeptAsEvidence) {
  Begin("order-1", 1);
  PassLease();
  Begin("order-1", 2);
  const OwnerItem late = Answered(Key("order-1"), 1, Paid());
  ASSERT_EQ(Call(late).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_TRUE(KeepRefused(late));
  const RefusedOutcome expected = {201, "response-1", DigestOf(Paid()), Now(), 1};
  EXPECT_EQ(Lookup("order-1")->refused_outcome, expected);
}

TEST_P(StoreConformance, RefusedOutcomeIsKeptAtMostOnceASecond) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  EXPECT_TRUE(KeepRefused(Answered(Key("order-1"), 1, Paid(200))));
  AdvanceClock(kRefusedOutcomeInterval - kMicro);
  EXPECT_FALSE(KeepRefused(Answered(Key("order-1"), 1, Paid(202))));
  EXPECT_EQ(Lookup("order-1")->refused_outcome->status_code, 200);
  AdvanceClock(kMicro);
  EXPECT_TRUE(KeepRefused(Answered(Key("order-1"), 1, Paid(202))));
  EXPECT_EQ(Lookup("order-1")->refused_outcome->status_code, 202);
}

TEST_P(StoreConformance, RefusedOutcomeOfAStrangerIsNotKept) {
  Begin("order-1", 1);
  EXPECT_FALSE(KeepRefused(Answered(Key("order-1"), 2, Paid())));
  EXPECT_FALSE(KeepRefused(Answered(Key("order-2"), 1, Paid())));
  EXPECT_FALSE(Lookup("order-1")->refused_outcome.has_value());
}

TEST_P(StoreConformance, RefusedOutcomeChangesNothingElseAndStays) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  const auto before = Lookup("order-1");
  KeepRefused(Answered(Key("order-1"), 1, Failed(Disposition::kFinal)));
  Record after = *Lookup("order-1");
  ASSERT_TRUE(after.refused_outcome.has_value());
  EXPECT_EQ(after.refused_outcome->status_code, 0);
  after.refused_outcome.reset();
  EXPECT_EQ(Describe(after), Describe(*before));
}

TEST_P(StoreConformance, RefusedOutcomeStaysOverATakeover) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kNotApplied);
  KeepRefused(Answered(Key("order-1"), 1, Paid()));
  EXPECT_TRUE(Begin("order-1", 2).record->refused_outcome.has_value());
}

}  // namespace
}  // namespace idempotency
