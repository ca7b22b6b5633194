// Begin on a live record, or on none: the rows of its table, through the store.

#include <gtest/gtest.h>

#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

TEST_P(StoreConformance, FirstBeginStartsAttemptOne) {
  BeginItem item = Request("order-1", 1);
  item.labels = {{"order", "1"}};
  const BeginResult first = Begin(item);
  EXPECT_EQ(first.verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(first.repeated);
  const Record& record = *first.record;
  EXPECT_EQ(record.attempt_number, 1);
  EXPECT_EQ(record.fencing_token, absl::ToUnixMicros(Now()));
  EXPECT_EQ(record.created_at, Now());
  EXPECT_EQ(record.started_at, Now());
  EXPECT_EQ(record.lease_expires_at, Now() + kLease);
  EXPECT_EQ(record.lease_duration, kLease);
  EXPECT_EQ(record.ttl, kTtl);
  EXPECT_EQ(record.operation, item.operation);
  EXPECT_EQ(record.fingerprint, item.fingerprint);
  EXPECT_EQ(record.unknown_attempts, 0);
  EXPECT_FALSE(record.previous_attempt.has_value());
  EXPECT_EQ(record.labels, item.labels);
}

// The key is taken before the work is done, not when its answer is stored.
TEST_P(StoreConformance, ReservationStandsBeforeTheWorkIsDone) {
  Begin("order-1", 1);
  const auto other = subject().Connect();
  const BeginItem second = Request("order-1", 2);
  const BeginItem* const items[] = {&second};
  const auto results = other->BeginBatch(items);
  ASSERT_TRUE(results[0].ok());
  EXPECT_EQ(results[0]->verdict, BeginVerdict::kInProgress);
}

TEST_P(StoreConformance, ReservationHasNoOutcome) {
  Begin("order-1", 1);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(second.record->answer, nullptr);
  EXPECT_FALSE(second.record->finished_at.has_value());
}

TEST_P(StoreConformance, BeginThatIsTurnedAwayWritesNothing) {
  Begin("order-1", 1);
  const std::string before = Stored("order-1");
  AdvanceClock(absl::Seconds(1));
  BeginItem held = Request("order-1", 2);
  held.hold = true;
  held.lease_duration = absl::Hours(1);
  EXPECT_EQ(Begin(held).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Stored("order-1"), before);
}

TEST_P(StoreConformance, BeginRepeatsForItsOwnAttempt) {
  const BeginResult first = Begin("order-1", 1);
  AdvanceClock(absl::Seconds(1));
  const BeginResult again = Begin("order-1", 1);
  EXPECT_EQ(again.verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.record->fencing_token, first.record->fencing_token);
  EXPECT_EQ(again.record->lease_expires_at, first.record->lease_expires_at);
}

TEST_P(StoreConformance, BeginTellsWhetherItWroteTheAttempt) {
  EXPECT_TRUE(Begin("order-1", 1).wrote_attempt);
  EXPECT_FALSE(Begin("order-1", 1).wrote_attempt);
  EXPECT_FALSE(Begin("order-1", 2).wrote_attempt);
  PassLease();
  const BeginResult resumed = Begin("order-1", 1);
  EXPECT_TRUE(resumed.repeated);
  EXPECT_TRUE(resumed.wrote_attempt);
  PassLease();
  EXPECT_TRUE(Begin("order-1", 2).wrote_attempt);
  EXPECT_FALSE(Begin("order-1", 2).wrote_attempt);
  Complete("order-1", 2);
  EXPECT_FALSE(Begin("order-1", 3).wrote_attempt);
}

// Two callers with the same body: the attempt decides who has won, not the fingerprint.
TEST_P(StoreConformance, SameBodyDoesNotMakeTheLoserAWinner) {
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
}

TEST_P(StoreConformance, LeaseIsNotOverAtTheVeryEndOfItsMargin) {
  Begin("order-1", 1);
  AdvanceClock(kLease + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  AdvanceClock(kMicro);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, NoLeaseRemainingIsStillALease) {
  Begin("order-1", 1);
  AdvanceClock(kLease);
  const BeginResult own = Begin("order-1", 1);
  EXPECT_TRUE(own.repeated);
  EXPECT_EQ(LeaseRemaining(*own.record, own.reading.now), absl::ZeroDuration());
  EXPECT_EQ(own.record->unknown_attempts, 0);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
}

// After a crash the key is free again with the lease, long before the record's retention is over.
TEST_P(StoreConformance, TakeoverStartsTheNextAttemptWhenTheLeaseIsOver) {
  const BeginResult first = Begin("order-1", 1);
  PassLease();
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(second.repeated);
  EXPECT_EQ(second.record->attempt_number, 2);
  EXPECT_GT(second.record->fencing_token, first.record->fencing_token);
  EXPECT_EQ(second.record->unknown_attempts, 1);
  EXPECT_EQ(second.record->created_at, first.record->created_at);
  EXPECT_EQ(second.record->started_at, Now());
  const PreviousAttempt ran_out = {1, first.record->started_at, first.record->lease_expires_at,
                                   std::nullopt};
  EXPECT_EQ(second.record->previous_attempt, ran_out);
}

TEST_P(StoreConformance, TakeoverTellsWhatTheUnknownAttemptSaid) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(second.record->unknown_attempts, 1);
  EXPECT_EQ(second.record->previous_attempt->failure, Failed(Disposition::kUnknown));
  EXPECT_EQ(second.record->answer, nullptr);
}

TEST_P(StoreConformance, SameCallerResumesItsAbandonedAttempt) {
  const BeginResult first = Begin("order-1", 1);
  PassLease();
  BeginItem item = Request("order-1", 1);
  item.lease_duration = absl::Seconds(5);
  const BeginResult again = Begin(item);
  EXPECT_EQ(again.verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.record->attempt_number, 1);
  EXPECT_EQ(again.record->fencing_token, first.record->fencing_token);
  EXPECT_EQ(again.record->started_at, first.record->started_at);
  EXPECT_EQ(again.record->lease_expires_at, Now() + absl::Seconds(5));
  EXPECT_EQ(again.record->unknown_attempts, 1);
}

TEST_P(StoreConformance, AttemptThatSaidUnknownIsNotResumed) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kUnknown);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kLeaseLost);
}

// The same process with a new attempt gets a new number and a new token, never its old ones.
TEST_P(StoreConformance, EveryStartHasItsOwnNumberAndToken) {
  int64_t token = Begin("order-1", 1).record->fencing_token;
  for (int attempt = 2; attempt <= 4; ++attempt) {
    Fail("order-1", attempt - 1, Disposition::kNotApplied);
    const BeginResult next = Begin("order-1", attempt);
    EXPECT_EQ(next.record->attempt_number, attempt);
    EXPECT_GT(next.record->fencing_token, token);
    token = next.record->fencing_token;
  }
}

TEST_P(StoreConformance, LateDuplicateOfAnEarlierBeginIsLeaseLost) {
  Begin("order-1", 1);
  PassLease();
  Begin("order-1", 2);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kLeaseLost);
  PassLease();
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kLeaseLost);
}

TEST_P(StoreConformance, EightEarlierAttemptsAreKnownAndTheNinthIsNot) {
  Begin("order-1", 1);
  for (int attempt = 2; attempt <= 10; ++attempt) {
    PassLease();
    ASSERT_EQ(Begin("order-1", attempt).verdict, BeginVerdict::kStarted);
  }
  for (int attempt = 2; attempt <= 9; ++attempt) {
    EXPECT_EQ(Begin("order-1", attempt).verdict, BeginVerdict::kLeaseLost);
  }
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kInProgress);
}

TEST_P(StoreConformance, ReleasedKeyIsFreeAtOnce) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kNotApplied);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(second.record->attempt_number, 2);
  EXPECT_EQ(second.record->unknown_attempts, 0);
  EXPECT_EQ(second.record->previous_attempt->failure, Failed(Disposition::kNotApplied));
}

TEST_P(StoreConformance, AttemptOfAReleasedRecordIsOver) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kNotApplied);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kLeaseLost);
}

// Takeover by age alone would run slow, living work twice.
TEST_P(StoreConformance, HeldRecordIsNotTakenOver) {
  BeginItem item = Request("order-1", 1);
  item.hold = true;
  Begin(item);
  PassLease();
  const std::string before = Stored("order-1");
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kNeedsResolution);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kNeedsResolution);
  EXPECT_EQ(Stored("order-1"), before);
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
}

TEST_P(StoreConformance, TakeoverCanTightenToHoldAndNotLoosen) {
  Begin("order-1", 1);
  PassLease();
  BeginItem tighter = Request("order-1", 2);
  tighter.hold = true;
  EXPECT_TRUE(Begin(tighter).record->hold);
  Fail("order-1", 2, Disposition::kNotApplied);
  EXPECT_TRUE(Begin("order-1", 3).record->hold);
}

TEST_P(StoreConformance, TakeoverWindowCapsTheLeaseAndThenEnds) {
  const BeginResult first = Begin("order-1", 1);
  const absl::Time end = first.record->created_at + kTakeoverWindow;
  AdvanceClock(kTakeoverWindow - absl::Milliseconds(1500) - kMicro);
  const BeginResult capped = Begin("order-1", 2);
  EXPECT_EQ(capped.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(capped.record->lease_expires_at, end);
  EXPECT_EQ(capped.record->lease_duration, absl::Milliseconds(1501));
  AdvanceClock(absl::Hours(1));
  EXPECT_EQ(Begin("order-1", 3).verdict, BeginVerdict::kNeedsResolution);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kNeedsResolution);
}

TEST_P(StoreConformance, ShortestLeaseLeftOfTheWindowIsTheLastThatIsGranted) {
  Begin("order-1", 1);
  Begin("order-2", 1);
  AdvanceClock(kTakeoverWindow - kShortestLease);
  EXPECT_EQ(Begin("order-1", 2).record->lease_duration, kShortestLease);
  AdvanceClock(kMicro);
  EXPECT_EQ(Begin("order-2", 2).verdict, BeginVerdict::kNeedsResolution);
}

TEST_P(StoreConformance, ReleasedRecordWithAnUnknownAttemptNeedsResolutionPastTheWindow) {
  Begin("order-1", 1);
  PassLease();
  Begin("order-1", 2);
  Fail("order-1", 2, Disposition::kNotApplied);
  AdvanceClock(kTakeoverWindow);
  EXPECT_EQ(Begin("order-1", 3).verdict, BeginVerdict::kNeedsResolution);
}

TEST_P(StoreConformance, OtherOperationIsKeyReusedAndLeavesTheRecordAlone) {
  Begin("order-1", 1);
  Complete("order-1", 1);
  const std::string before = Stored("order-1");
  BeginItem refund = Request("order-1", 2);
  refund.operation = "POST /refunds";
  EXPECT_EQ(Begin(refund).verdict, BeginVerdict::kKeyReused);
  EXPECT_EQ(Stored("order-1"), before);
}

TEST_P(StoreConformance, OtherBodyIsKeyReusedInEveryState) {
  const auto other = [](absl::string_view key, int attempt) {
    BeginItem item = Request(key, attempt);
    item.fingerprint[31] ^= 1;
    return item;
  };
  for (const char* key : {"at-work", "abandoned", "completed", "failed", "released", "unknown"}) {
    Begin(key, 1);
  }
  Complete("completed", 1);
  Fail("failed", 1, Disposition::kFinal);
  Fail("released", 1, Disposition::kNotApplied);
  Fail("unknown", 1, Disposition::kUnknown);
  EXPECT_EQ(Begin(other("at-work", 1)).verdict, BeginVerdict::kKeyReused);
  PassLease();
  for (const char* key : {"abandoned", "completed", "failed", "released", "unknown"}) {
    EXPECT_EQ(Begin(other(key, 1)).verdict, BeginVerdict::kKeyReused) << key;
    EXPECT_EQ(Begin(other(key, 2)).verdict, BeginVerdict::kKeyReused) << key;
  }
}

TEST_P(StoreConformance, SchemeIsStoredAndNotCompared) {
  BeginItem item = Request("order-1", 1);
  item.fingerprint_scheme = 1;
  Begin(item);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(second.record->fingerprint_scheme, 1);
}

TEST_P(StoreConformance, SameBodyUnderAnotherKeyIsLegal) {
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begin("order-2", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, SameKeyOfTwoMerchantsIsTwoRecords) {
  BeginItem theirs = Request({"m2", "order-1"}, 1);
  theirs.fingerprint.fill(9);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begin(theirs).verdict, BeginVerdict::kStarted);
  Complete("order-1", 1);
  EXPECT_EQ(Lookup({"m2", "order-1"})->state, RecordState::kInProgress);
}

// The same bytes, split elsewhere between merchant and key.
TEST_P(StoreConformance, MerchantAndKeyAreNotRunTogether) {
  EXPECT_EQ(Begin(Request({"m1", "1order"}, 1)).verdict, BeginVerdict::kStarted);
  EXPECT_EQ(Begin(Request({"m11", "order"}, 2)).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, ReplayTellsTheFirstAnswersTimeAndNumber) {
  const BeginResult first = Begin("order-1", 1);
  AdvanceClock(absl::Seconds(3));
  Complete("order-1", 1);
  const absl::Time finished = Now();
  AdvanceClock(absl::Hours(2));
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kReplay);
  EXPECT_EQ(second.record->attempt_number, 1);
  EXPECT_EQ(second.record->started_at, first.record->started_at);
  EXPECT_EQ(second.record->finished_at, finished);
  EXPECT_EQ(*second.record->answer, Answer(Paid()));
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kReplay);
}

TEST_P(StoreConformance, FinalFailureIsReplayed) {
  Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kFinal);
  const BeginResult second = Begin("order-1", 2);
  EXPECT_EQ(second.verdict, BeginVerdict::kReplay);
  EXPECT_EQ(*second.record->answer, Answer(Failed(Disposition::kFinal)));
}

}  // namespace
}  // namespace idempotency
