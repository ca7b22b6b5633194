// A clock that jumps: what no store may do then, and that everything can be driven on afterwards.

#include <gtest/gtest.h>

#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

constexpr absl::Duration kGap = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Minutes(10);
constexpr absl::Duration kTwoHours = absl::Hours(2);

// Noted as a replica does that looks at the clock now.
ClockState Noted(Store& store, bool saw_drift = false) {
  const absl::StatusOr<ClockState> state = store.RefreshClock(saw_drift);
  EXPECT_TRUE(state.ok()) << state.status();
  return state.value_or(ClockState());
}

ClockState Seen(Store& store) {
  const absl::StatusOr<ClockState> state = store.ReadClock();
  EXPECT_TRUE(state.ok()) << state.status();
  return state.value_or(ClockState());
}

class ClockConformance : public StoreConformance {
 protected:
  bool HasJumpedNow(const ClockState& state) { return state.guard.last_jump_at == Now(); }

  // A Begin whose reading is not the clock's, which was set back and nobody noticed.
  BeginResult BeginAfterStepBack(absl::string_view key, int attempt) {
    const BeginItem item = Request(key, attempt);
    const BeginItem* const items[] = {&item};
    const absl::StatusOr<BeginResult> result = store().BeginBatch(items)[0];
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {.record = std::make_shared<const Record>()};
    EXPECT_EQ(result->reading.now, result->record->created_at);
    EXPECT_EQ(Describe(result->record.get()), Describe(Lookup(key).get()));
    return *result;
  }

  // A record that is purged; returns its token.
  int64_t PurgedToken(absl::string_view key) {
    const int64_t token = Begin(key, 1).record->fencing_token;
    Complete(key, 1);
    AdvanceClock(kTtl + kMargin + kMicro);
    EXPECT_EQ(Purge(), 1);
    return token;
  }
};

TEST_P(ClockConformance, RefreshMovesTheReadingAndNotesNothingWithinTheGap) {
  JumpClock(kGap);
  const ClockState before = Seen(store());
  const ClockState state = Noted(store());
  EXPECT_EQ(before.now, Now());
  EXPECT_EQ(before.guard.reading, Now() - kGap);
  EXPECT_EQ(state.now, Now());
  EXPECT_EQ(state.guard.reading, Now());
  EXPECT_EQ(state.guard.last_jump_at, before.guard.last_jump_at);
  EXPECT_EQ(state.guard.token_offset_us, 0);
  EXPECT_TRUE(state.is_same_history);
}

TEST_P(ClockConformance, RefreshNotesAJumpOnePastTheGap) {
  JumpClock(kGap + kMicro);
  const ClockState state = Noted(store());
  EXPECT_TRUE(HasJumpedNow(state));
  EXPECT_EQ(state.last_jump, ClockJump::kGap);
  EXPECT_EQ(state.guard.token_offset_us, 0);
}

TEST_P(ClockConformance, RefreshNotesTheSmallestStepBackAndSumsThemUp) {
  JumpClock(-kMicro);
  ClockState state = Noted(store());
  EXPECT_TRUE(HasJumpedNow(state));
  EXPECT_EQ(state.last_jump, ClockJump::kRanBack);
  EXPECT_EQ(state.guard.token_offset_us, 1);
  JumpClock(-kTwoHours);
  state = Noted(store());
  EXPECT_EQ(state.guard.token_offset_us, 7'200'000'001);
  JumpClock(kTwoHours);
  state = Noted(store());
  EXPECT_EQ(state.last_jump, ClockJump::kGap);
  EXPECT_EQ(state.guard.token_offset_us, 7'200'000'001);
}

TEST_P(ClockConformance, RefreshNotesWhatAReplicaSawAlone) {
  JumpClock(absl::Milliseconds(600));
  const ClockState state = Noted(store(), /*saw_drift=*/true);
  EXPECT_TRUE(HasJumpedNow(state));
  EXPECT_EQ(state.last_jump, ClockJump::kDrift);
}

// Otherwise a step back of two hours would pause everything for two hours more.
TEST_P(ClockConformance, StepBackBringsTheLastJumpToTheClockAsItIsNow) {
  JumpClock(kTwoHours);
  Noted(store());
  JumpClock(-kTwoHours);
  EXPECT_TRUE(HasJumpedNow(Noted(store())));
}

TEST_P(ClockConformance, RefreshWithoutAJumpKeepsTheLastOne) {
  JumpClock(kTwoHours);
  const absl::Time jumped_at = Noted(store()).guard.last_jump_at;
  JumpClock(absl::Milliseconds(250));
  const ClockState state = Noted(store());
  EXPECT_EQ(state.guard.last_jump_at, jumped_at);
  EXPECT_EQ(state.guard.reading, Now());
}

TEST_P(ClockConformance, StepAheadEndsNoLease) {
  const BeginResult first = Begin("order-1", 1);
  JumpClock(kTwoHours);
  // Before any replica noticed, and after one did.
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  const std::unique_ptr<Store> other = subject().Connect();
  Noted(*other);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  EXPECT_TRUE(Begin("order-1", 1).repeated);
  EXPECT_EQ(Begin("order-1", 1).record->attempt_number, 1);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  AdvanceClock(kMicro);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_GT(second.record->fencing_token, first.record->fencing_token);
}

TEST_P(ClockConformance, RenewAfterTheStepKeepsTheLease) {
  Begin("order-1", 1);
  JumpClock(kTwoHours);
  Noted(store());
  AdvanceClock(kLease);
  EXPECT_EQ(Renew("order-1", 1).verdict, OwnerVerdict::kRenewed);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
}

TEST_P(ClockConformance, LeaseThatIsOverIsTakenOverWithinTheGapAndNotBeyond) {
  Begin("order-1", 1);
  Begin("order-2", 1);
  PassLease();
  JumpClock(kGap);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
  // Nobody looked at the clock for longer: it may have jumped.
  JumpClock(kMicro);
  EXPECT_EQ(Begin("order-2", 2).verdict, BeginVerdict::kInProgress);
  Noted(store());
  AdvanceClock(kLease + kMargin + kMicro);
  EXPECT_EQ(Begin("order-2", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(ClockConformance, StepBackEndsNoLeaseAndEveryKeyIsDrivenOnAfterIt) {
  Begin("order-1", 1);
  JumpClock(-kTwoHours);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  Noted(store());
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  AdvanceClock(kTwoHours + kLease + kMargin + kMicro);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(ClockConformance, TokenOfAPurgedKeyGrowsThoughTheClockWasSetBack) {
  const int64_t last = PurgedToken("order-1");
  JumpClock(-absl::Hours(48));
  // Before any replica noticed.
  const BeginResult second = BeginAfterStepBack("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(second.record->attempt_number, 1);
  EXPECT_GT(second.record->fencing_token, last);
}

TEST_P(ClockConformance, TokenOfAPurgedKeyGrowsAfterTheStepWasNoted) {
  const int64_t last = PurgedToken("order-1");
  JumpClock(-absl::Hours(48));
  Noted(store());
  const BeginResult second = Begin("order-1", 2);
  EXPECT_GT(second.record->fencing_token, last);
  EXPECT_EQ(second.record->created_at, Now());
  EXPECT_EQ(second.record->fencing_token, absl::ToUnixMicros(Now() + absl::Hours(48)));
  // It is in the row, for whoever reads it later.
  EXPECT_EQ(Lookup("order-1")->fencing_token, second.record->fencing_token);
}

TEST_P(ClockConformance, TokensGrowOverEveryTakeoverAfterAStepBack) {
  int64_t last = Begin("order-1", 1).record->fencing_token;
  JumpClock(-kTwoHours);
  Noted(store());
  for (int attempt = 2; attempt < 5; ++attempt) {
    AdvanceClock(kTwoHours + kLease + kMargin + kMicro);
    const BeginResult next = Begin("order-1", attempt);
    ASSERT_EQ(next.verdict, BeginVerdict::kStarted);
    EXPECT_GT(next.record->fencing_token, last);
    last = next.record->fencing_token;
  }
}

// As if it were just before the step: never with less than its lease.
TEST_P(ClockConformance, RecordThatIsBegunRightAfterAStepBackHasItsLease) {
  const absl::Time before = Now();
  JumpClock(-kTwoHours);
  const BeginResult first = BeginAfterStepBack("order-1", 1);
  EXPECT_EQ(first.record->created_at, before);
  EXPECT_EQ(first.record->lease_expires_at, before + kLease);
  EXPECT_EQ(LeaseRemaining(*first.record, Now()), kLease);
  // The clock is set right again: within the gap nobody can tell, but the lease stands.
  JumpClock(kTwoHours + kLease);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
}

TEST_P(ClockConformance, NothingExpiresBeforeThePauseAfterAStepAheadIsOver) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  JumpClock(kTtl + kReplayWindow + kTwoHours);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(Purge(), 0);
  Noted(store());
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  BeginItem other_body = Request("order-1", 2);
  other_body.fingerprint.fill(9);
  EXPECT_EQ(Begin(other_body).verdict, BeginVerdict::kKeyReused);
  AdvanceClock(kPause);
  EXPECT_EQ(Purge(), 0);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  AdvanceClock(kMicro);
  EXPECT_EQ(Purge(), 1);
}

TEST_P(ClockConformance, ExpiredKeyIsBegunAnewAfterThePauseWithAHigherToken) {
  const BeginResult first = Begin("order-1", 1);
  Complete("order-1", 1);
  JumpClock(kTtl + kTwoHours);
  Noted(store());
  AdvanceClock(kPause + kMicro);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(second.record->attempt_number, 1);
  EXPECT_GT(second.record->fencing_token, first.record->fencing_token);
}

TEST_P(ClockConformance, SweepMarksNoLiveLeaseAfterAStepAhead) {
  Begin("order-1", 1);
  JumpClock(kTwoHours);
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
  Noted(store());
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
  AdvanceClock(kLease + kMargin);
  EXPECT_TRUE(Sweep(absl::ZeroDuration()).empty());
  AdvanceClock(kMicro);
  EXPECT_EQ(Sweep(absl::ZeroDuration()).size(), 1u);
}

TEST_P(ClockConformance, SurveyCountsNoLeaseAsOverBeforeTheSweepMarksIt) {
  Begin("order-1", 1);
  JumpClock(kTwoHours);
  EXPECT_EQ(WholeSurvey().lease_over, 0);
  EXPECT_EQ(WholeSurvey().in_progress, 1);
  Noted(store());
  EXPECT_EQ(WholeSurvey().lease_over, 0);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(WholeSurvey().lease_over, 0);
  AdvanceClock(kMicro);
  EXPECT_EQ(WholeSurvey().lease_over, 1);
}

TEST_P(ClockConformance, SurveyCountsNoLeaseAsOverWhenNobodyLookedAtTheClock) {
  Begin("order-1", 1);
  PassLease();
  JumpClock(kGap);
  EXPECT_EQ(WholeSurvey().lease_over, 1);
  JumpClock(kMicro);
  EXPECT_EQ(WholeSurvey().lease_over, 0);
  JumpClock(-kTwoHours);
  EXPECT_EQ(WholeSurvey().lease_over, 0);
}

TEST_P(ClockConformance, SurveyCountsNothingAsExpiredBeforeThePurgeDeletesIt) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  JumpClock(kTtl + kReplayWindow + kTwoHours);
  EXPECT_EQ(WholeSurvey().expired, 0);
  Noted(store());
  AdvanceClock(kPause);
  EXPECT_EQ(WholeSurvey().expired, 0);
  AdvanceClock(kMicro);
  EXPECT_EQ(WholeSurvey().expired, 1);
  EXPECT_EQ(Purge(), 1);
}

TEST_P(ClockConformance, UnsettledRecordsAreNotDeletedInThePause) {
  const absl::Duration age = absl::Hours(24) * 90;
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  Begin("order-2", 1);
  JumpClock(age + kTwoHours);
  EXPECT_TRUE(PurgeUnsettled(age).empty());
  Noted(store());
  AdvanceClock(kPause);
  EXPECT_TRUE(PurgeUnsettled(age).empty());
  AdvanceClock(kMicro);
  EXPECT_EQ(PurgeUnsettled(age).size(), 2u);
}

// Its token may be newer than the guard's reading: a step back right then could repeat it.
TEST_P(ClockConformance, UnsettledRecordIsNotDeletedWithinTheMarginOfItsLastReport) {
  const absl::Duration age = absl::Hours(1);
  Begin("order-1", 1);
  AdvanceClock(age + kMicro);
  Fail("order-1", 1, Disposition::kUnknown);
  AdvanceClock(kMargin);
  EXPECT_TRUE(PurgeUnsettled(age).empty());
  AdvanceClock(kMicro);
  EXPECT_EQ(PurgeUnsettled(age).size(), 1u);
}

TEST_P(ClockConformance, EveryStoreSeesWhatOneNoted) {
  Begin("order-1", 1);
  const std::unique_ptr<Store> other = subject().Connect();
  JumpClock(absl::Milliseconds(600));
  const absl::Time jumped_at = Noted(*other, /*saw_drift=*/true).guard.last_jump_at;
  EXPECT_EQ(Seen(store()).guard.last_jump_at, jumped_at);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  AdvanceClock(kMicro);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
}

INSTANTIATE_TEST_SUITE_P(All, ClockConformance, ::testing::ValuesIn(StoreImplementations()),
                         ImplementationName);

}  // namespace
}  // namespace idempotency
