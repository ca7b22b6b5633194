// The state machine's small print, one behaviour a test. The tables are tested row by row in
// decide_begin_table_test.cc and decide_owner_table_test.cc.

#include "server/record/decide.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/record/limit.h"
#include "server/record/record_id.h"
#include "tests/record/steady_clock.h"

namespace idempotency {
namespace {

constexpr Policy kPolicy = {};
constexpr absl::Duration kMicro = absl::Microseconds(1);
constexpr absl::Duration kLease = absl::Seconds(60);
const absl::Duration kOver = kLease + kPolicy.skew_margin + kMicro;

absl::Time Start() { return absl::FromUnixMicros(1'800'000'000'123'457); }

AttemptHash Attempt(int number) { return HashAttemptId(absl::StrCat("attempt-", number)); }

BeginItem Begin(int attempt) {
  BeginItem item;
  item.key = {"merchant", "order-1"};
  item.operation = "POST /orders";
  item.attempt = Attempt(attempt);
  item.ttl = absl::Hours(24);
  item.lease_duration = kLease;
  return item;
}

BeginItem BeginWithHold(int attempt) {
  BeginItem item = Begin(attempt);
  item.hold = true;
  return item;
}

OwnerItem Finish(int attempt, const Answer& answer) {
  OwnerItem item;
  item.key = {"merchant", "order-1"};
  item.attempt = Attempt(attempt);
  item.answer = std::make_shared<const Answer>(answer);
  return item;
}

OwnerItem Renew(int attempt, absl::Duration lease) {
  OwnerItem item;
  item.key = {"merchant", "order-1"};
  item.attempt = Attempt(attempt);
  item.lease_duration = lease;
  return item;
}

Failure Failed(Disposition disposition, const std::string& code = "code") {
  Failure failure;
  failure.disposition = disposition;
  failure.code = code;
  return failure;
}

// What is written; the test fails when nothing is.
Record Written(const BeginDecision& decision) {
  EXPECT_TRUE(decision.next.has_value());
  return decision.next.value_or(Record{});
}
Record Written(const OwnerDecision& decision) {
  EXPECT_TRUE(decision.next.has_value());
  return decision.next.value_or(Record{});
}

Record Started() { return Written(DecideBegin(nullptr, Begin(1), Start(), kPolicy)); }

TEST(DecideBegin, HoldComesIntoForceWithTheAttemptThatTakesOver) {
  const Record first = Started();
  EXPECT_FALSE(first.hold);
  const Record second = Written(DecideBegin(&first, BeginWithHold(2), Start() + kOver, kPolicy));
  EXPECT_TRUE(second.hold);
}

TEST(DecideBegin, HoldComesIntoForceWithAResume) {
  const Record first = Started();
  EXPECT_TRUE(Written(DecideBegin(&first, BeginWithHold(1), Start() + kOver, kPolicy)).hold);
}

TEST(DecideBegin, HoldDoesNotComeIntoForceWithARepeatInsideTheLease) {
  const Record first = Started();
  const BeginDecision repeat = DecideBegin(&first, BeginWithHold(1), Start() + kLease, kPolicy);
  EXPECT_TRUE(repeat.repeated);
  EXPECT_FALSE(repeat.next.has_value());
}

TEST(DecideBegin, HoldIsNotLoosenedByALaterBegin) {
  Record held = Written(DecideBegin(nullptr, BeginWithHold(1), Start(), kPolicy));
  held = Written(DecideOwner(&held, Finish(1, Failed(Disposition::kNotApplied)), Start(), kPolicy));
  EXPECT_TRUE(Written(DecideBegin(&held, Begin(2), Start(), kPolicy)).hold);
}

TEST(DecideBegin, HoldDoesNotMatterForAReleasedRecord) {
  Record held = Written(DecideBegin(nullptr, BeginWithHold(1), Start(), kPolicy));
  held = Written(DecideOwner(&held, Finish(1, Failed(Disposition::kNotApplied)), Start(), kPolicy));
  EXPECT_EQ(DecideBegin(&held, Begin(2), Start(), kPolicy).verdict, BeginVerdict::kStarted);
}

TEST(DecideBegin, WindowsEndCapsTheFirstTakeover) {
  const Record first = Started();
  const absl::Time near_end = Start() + kPolicy.takeover_window - absl::Seconds(10);
  const Record second = Written(DecideBegin(&first, Begin(2), near_end, kPolicy));
  EXPECT_EQ(second.lease_expires_at, Start() + kPolicy.takeover_window);
  EXPECT_EQ(second.lease_duration, absl::Seconds(10));
}

TEST(DecideBegin, WindowRunsFromTheRecordsFirstBegin) {
  Record record = Started();
  const absl::Time later = Start() + kPolicy.takeover_window / 2;
  record = Written(DecideBegin(&record, Begin(2), later, kPolicy));
  const absl::Time end = Start() + kPolicy.takeover_window;
  EXPECT_EQ(DecideBegin(&record, Begin(3), end - kPolicy.shortest_lease, kPolicy).verdict,
            BeginVerdict::kStarted);
  EXPECT_EQ(DecideBegin(&record, Begin(3), end - kPolicy.shortest_lease + kMicro, kPolicy).verdict,
            BeginVerdict::kNeedsResolution);
}

TEST(DecideBegin, WindowDoesNotMatterWithoutUnknownAttempts) {
  Record record = Started();
  const absl::Time late = Start() + kPolicy.takeover_window + absl::Hours(1);
  record =
      Written(DecideOwner(&record, Finish(1, Failed(Disposition::kNotApplied)), late, kPolicy));
  const Record second = Written(DecideBegin(&record, Begin(2), late, kPolicy));
  EXPECT_EQ(second.lease_expires_at, late + kLease);
}

TEST(DecideBegin, RepeatsWithNothingRemainingBetweenTheLeasesEndAndOver) {
  const Record first = Started();
  const absl::Time between = Start() + kLease + kPolicy.skew_margin;
  const BeginDecision repeat = DecideBegin(&first, Begin(1), between, kPolicy);
  EXPECT_EQ(repeat.verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(repeat.repeated);
  EXPECT_EQ(LeaseRemaining(first, between), absl::ZeroDuration());
  EXPECT_EQ(DecideOwner(&first, Renew(1, kLease), between, kPolicy).verdict,
            OwnerVerdict::kRenewed);
}

TEST(DecideBegin, ResumeKeepsPreviousAttemptAsToldAtTheStart) {
  Record record = Started();
  record = Written(DecideBegin(&record, Begin(2), Start() + kOver, kPolicy));
  const Record resumed = Written(DecideBegin(&record, Begin(2), Start() + 2 * kOver, kPolicy));
  EXPECT_EQ(resumed.previous_attempt, record.previous_attempt);
  EXPECT_EQ(resumed.started_at, record.started_at);
  EXPECT_EQ(resumed.fencing_token, record.fencing_token);
}

TEST(DecideBegin, EveryResumeCountsAsUnknown) {
  Record record = Started();
  record = Written(DecideBegin(&record, Begin(1), Start() + kOver, kPolicy));
  EXPECT_EQ(record.unknown_attempts, 1);
  record = Written(DecideBegin(&record, Begin(1), Start() + 2 * kOver, kPolicy));
  EXPECT_EQ(record.unknown_attempts, 2);
  record = Written(DecideBegin(&record, Begin(2), Start() + 3 * kOver, kPolicy));
  EXPECT_EQ(record.unknown_attempts, 3);
}

TEST(DecideBegin, RemembersEightEarlierAttemptsAndForgetsTheNinth) {
  Record record = Started();
  for (int attempt = 2; attempt <= 10; ++attempt) {
    record =
        Written(DecideBegin(&record, Begin(attempt), Start() + (attempt - 1) * kOver, kPolicy));
  }
  EXPECT_EQ(record.attempt_number, 10);
  EXPECT_EQ(record.earlier_attempts.size(), kEarlierAttempts);
  const absl::Time now = Start() + 9 * kOver;
  for (int attempt = 2; attempt <= 9; ++attempt) {
    EXPECT_EQ(DecideBegin(&record, Begin(attempt), now, kPolicy).verdict, BeginVerdict::kLeaseLost);
  }
  EXPECT_EQ(DecideBegin(&record, Begin(1), now, kPolicy).verdict, BeginVerdict::kInProgress);
}

TEST(DecideBegin, TokenGrowsWhenTheClockWentBack) {
  Record record = Started();
  record =
      Written(DecideOwner(&record, Finish(1, Failed(Disposition::kNotApplied)), Start(), kPolicy));
  const Record second = Written(DecideBegin(&record, Begin(2), Start() - absl::Hours(1), kPolicy));
  EXPECT_EQ(second.fencing_token, record.fencing_token + 1);
}

TEST(DecideBegin, SchemeIsNotComparedAndStays) {
  const Record first = Started();
  BeginItem other_scheme = Begin(2);
  other_scheme.fingerprint_scheme = 1;
  EXPECT_EQ(DecideBegin(&first, other_scheme, Start(), kPolicy).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Written(DecideBegin(&first, other_scheme, Start() + kOver, kPolicy)).fingerprint_scheme,
            0);
}

TEST(DecideBegin, FirstBeginsTtlAndLabelsCount) {
  BeginItem begin = Begin(1);
  begin.labels = {{"order", "1"}};
  const Record first = Written(DecideBegin(nullptr, begin, Start(), kPolicy));
  BeginItem later = Begin(2);
  later.ttl = absl::Hours(1);
  later.labels = {{"order", "2"}};
  const Record second = Written(DecideBegin(&first, later, Start() + kOver, kPolicy));
  EXPECT_EQ(second.ttl, absl::Hours(24));
  EXPECT_EQ(second.labels, (Labels{{"order", "1"}}));
}

TEST(DecideBegin, ExpiredKeyGetsANewRecordWithANewId) {
  Record record = Started();
  record = Written(DecideOwner(&record, Finish(1, Outcome{}), Start(), kPolicy));
  const absl::Time expired = Start() + absl::Hours(24) + kPolicy.skew_margin + kMicro;
  const Record fresh = Written(DecideBegin(&record, Begin(2), expired, kPolicy));
  EXPECT_EQ(fresh.attempt_number, 1);
  EXPECT_GT(fresh.created_at, record.created_at);
  EXPECT_GT(fresh.fencing_token, record.fencing_token);
  EXPECT_NE(RecordIdOf(fresh.key, fresh.created_at), RecordIdOf(record.key, record.created_at));
  EXPECT_TRUE(fresh.earlier_attempts.empty());
}

// docs/adr/0004: the replay window is longer than any message lives, so the new record does not
// remember the attempts of the one before it.
TEST(DecideBegin, LateBeginOfAnEarlierRecordOfTheKeyIsAForeignAttempt) {
  Record record = Started();
  record = Written(DecideOwner(&record, Finish(1, Outcome{}), Start(), kPolicy));
  const absl::Time expired = Start() + absl::Hours(24) + kPolicy.skew_margin + kMicro;
  ASSERT_EQ(DecideBegin(&record, Begin(1), expired, kPolicy).verdict, BeginVerdict::kLeaseLost);
  const Record fresh = Written(DecideBegin(&record, Begin(2), expired, kPolicy));
  EXPECT_EQ(DecideBegin(&fresh, Begin(1), expired, kPolicy).verdict, BeginVerdict::kInProgress);
  const Record third = Written(DecideBegin(&fresh, Begin(1), expired + kOver, kPolicy));
  EXPECT_EQ(third.attempt_number, 2) << "it may even take over";
}

TEST(DecideOwner, UnknownIsTakenBackByALaterNotApplied) {
  Record record = Started();
  record =
      Written(DecideOwner(&record, Finish(1, Failed(Disposition::kUnknown)), Start(), kPolicy));
  EXPECT_FALSE(IsSettled(record));
  record =
      Written(DecideOwner(&record, Finish(1, Failed(Disposition::kNotApplied)), Start(), kPolicy));
  EXPECT_EQ(record.unknown_attempts, 0);
  EXPECT_TRUE(IsSettled(record));
}

TEST(DecideOwner, NotAppliedAfterAnUnknownAttemptDoesNotSettle) {
  Record record = Started();
  record = Written(DecideBegin(&record, Begin(2), Start() + kOver, kPolicy));
  record = Written(
      DecideOwner(&record, Finish(2, Failed(Disposition::kNotApplied)), Start() + kOver, kPolicy));
  EXPECT_FALSE(IsSettled(record));
  EXPECT_EQ(ExpiresAt(record, kPolicy), absl::InfiniteFuture());
}

TEST(DecideOwner, UnknownEndsTheLeaseNowAndNeverLater) {
  const Record record = Started();
  const absl::Time early = Start() + absl::Seconds(10);
  const OwnerItem unknown = Finish(1, Failed(Disposition::kUnknown));
  EXPECT_EQ(Written(DecideOwner(&record, unknown, early, kPolicy)).lease_expires_at, early);
  EXPECT_EQ(Written(DecideOwner(&record, unknown, Start() + kOver, kPolicy)).lease_expires_at,
            Start() + kLease);
}

TEST(DecideOwner, UnknownAgainWithOtherContentReplacesTheFirst) {
  Record record = Started();
  record = Written(
      DecideOwner(&record, Finish(1, Failed(Disposition::kUnknown, "a")), Start(), kPolicy));
  const absl::Time later = Start() + absl::Seconds(1);
  const OwnerDecision again =
      DecideOwner(&record, Finish(1, Failed(Disposition::kUnknown, "b")), later, kPolicy);
  EXPECT_EQ(again.verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(again.next->finished_at, later);
  EXPECT_EQ(std::get<Failure>(*again.next->answer).code, "b");
}

TEST(DecideOwner, ExpiredRecordAnswersCompleteFailAndRenewAsBefore) {
  Record record = Started();
  record = Written(DecideOwner(&record, Finish(1, Outcome{}), Start(), kPolicy));
  const absl::Time expired = Start() + absl::Hours(48);
  ASSERT_TRUE(IsExpired(record, expired, kPolicy));
  EXPECT_EQ(DecideOwner(&record, Finish(1, Outcome{}), expired, kPolicy).verdict,
            OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(DecideOwner(&record, Finish(1, Failed(Disposition::kFinal)), expired, kPolicy).verdict,
            OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(DecideOwner(&record, Renew(1, kLease), expired, kPolicy).verdict,
            OwnerVerdict::kAlreadyFinished);
}

TEST(DecideRenew, NeverShortensTheLease) {
  const Record record = Started();
  const Record renewed =
      Written(DecideOwner(&record, Renew(1, absl::Seconds(1)), Start(), kPolicy));
  EXPECT_EQ(renewed.lease_expires_at, record.lease_expires_at);
  EXPECT_EQ(renewed.lease_duration, record.lease_duration);
}

TEST(DecideRenew, NeverCountsAsUnknown) {
  const Record record = Started();
  const Record renewed =
      Written(DecideOwner(&record, Renew(1, kLease), Start() + absl::Hours(1), kPolicy));
  EXPECT_EQ(renewed.unknown_attempts, 0);
  EXPECT_EQ(renewed.lease_expires_at, Start() + absl::Hours(1) + kLease);
}

TEST(DecideRenew, IsNotCappedByTheWindowWithoutUnknownAttempts) {
  const Record record = Started();
  const absl::Time past = Start() + kPolicy.takeover_window + absl::Hours(1);
  EXPECT_EQ(Written(DecideOwner(&record, Renew(1, kLease), past, kPolicy)).lease_expires_at,
            past + kLease);
}

TEST(DecideRenew, GetsWhatIsLeftOfTheWindow) {
  Record record = Started();
  const absl::Time end = Start() + kPolicy.takeover_window;
  record = Written(DecideBegin(&record, Begin(2), end - absl::Seconds(90), kPolicy));
  record = Written(DecideOwner(&record, Renew(2, kLease), end - absl::Seconds(40), kPolicy));
  EXPECT_EQ(record.lease_expires_at, end);
}

TEST(DecideRenew, KeepsALeaseThatRunsWhenTheWindowHasNoRoomForAnother) {
  Record record = Started();
  const absl::Time end = Start() + kPolicy.takeover_window;
  record = Written(DecideBegin(&record, Begin(2), end - kLease, kPolicy));
  const Record renewed = Written(DecideOwner(&record, Renew(2, kLease), end - kMicro, kPolicy));
  EXPECT_EQ(renewed.lease_expires_at, end);
  EXPECT_EQ(LeaseRemaining(renewed, end - kMicro), kMicro);
  EXPECT_EQ(DecideOwner(&record, Renew(2, kLease), end, kPolicy).verdict,
            OwnerVerdict::kNeedsResolution);
}

TEST(DecideRenew, WorksOnASweptHeldRecord) {
  Record record = Written(DecideBegin(nullptr, BeginWithHold(1), Start(), kPolicy));
  record.state = RecordState::kSwept;
  EXPECT_EQ(Written(DecideOwner(&record, Renew(1, kLease), Start() + kOver, kPolicy)).state,
            RecordState::kInProgress);
}

TEST(LeaseRemaining, IsNeverNegativeNorLongerThanTheLease) {
  const Record record = Started();
  EXPECT_EQ(LeaseRemaining(record, Start() + absl::Hours(1)), absl::ZeroDuration());
  EXPECT_EQ(LeaseRemaining(record, Start() - absl::Hours(1)), kLease);
  EXPECT_EQ(LeaseRemaining(record, Start() + kLease - kMicro), kMicro);
}

TEST(LeaseRemaining, IsZeroWhenNoAttemptIsAtWork) {
  Record record = Started();
  record = Written(DecideOwner(&record, Finish(1, Outcome{}), Start(), kPolicy));
  EXPECT_EQ(LeaseRemaining(record, Start()), absl::ZeroDuration());
}

TEST(RetryAfter, IsTheTimeUntilOverWithinItsBounds) {
  const Record record = Started();
  const absl::Time over = Start() + kLease + kPolicy.skew_margin;
  EXPECT_EQ(RetryAfter(record, Start(), kPolicy), kMaxRetryAfter);
  EXPECT_EQ(RetryAfter(record, over - absl::Milliseconds(1500), kPolicy), absl::Milliseconds(1500));
  EXPECT_EQ(RetryAfter(record, over - kMinRetryAfter, kPolicy), kMinRetryAfter);
  EXPECT_EQ(RetryAfter(record, over, kPolicy), kMinRetryAfter);
}

TEST(KeepRefused, TellsTheNumberOfTheAttemptThatWasRefused) {
  Record record = Started();
  record = Written(DecideBegin(&record, Begin(2), Start() + kOver, kPolicy));
  record = Written(DecideBegin(&record, Begin(3), Start() + 2 * kOver, kPolicy));
  Outcome outcome;
  outcome.status_code = 201;
  outcome.response_id = "late";
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const OwnerItem late = Finish(attempt, outcome);
    const std::optional<Record> kept = KeepRefused(record, late, Start() + 2 * kOver);
    ASSERT_TRUE(kept.has_value());
    const RefusedOutcome expected = {201, "late", DigestOf(*late.answer), Start() + 2 * kOver,
                                     attempt};
    EXPECT_EQ(kept->refused_outcome, expected);
  }
}

TEST(KeepRefused, IgnoresAnAttemptThatIsNotTheRecords) {
  const Record record = Started();
  EXPECT_FALSE(KeepRefused(record, Finish(2, Outcome{}), Start()).has_value());
}

TEST(KeepRefused, KeepsAtMostOneASecond) {
  const Record record = Started();
  const OwnerItem late = Finish(1, Failed(Disposition::kFinal));
  const std::optional<Record> kept = KeepRefused(record, late, Start());
  ASSERT_TRUE(kept.has_value());
  EXPECT_FALSE(KeepRefused(*kept, late, Start() + kRefusedOutcomeInterval - kMicro).has_value());
  EXPECT_TRUE(KeepRefused(*kept, late, Start() + kRefusedOutcomeInterval).has_value());
}

TEST(KeepRefused, ShowsTheOutcomeOfAFailureAndZeroWithoutOne) {
  const Record record = Started();
  Failure failure = Failed(Disposition::kFinal);
  EXPECT_EQ(KeepRefused(record, Finish(1, failure), Start())->refused_outcome->status_code, 0);
  failure.outcome = Outcome{};
  failure.outcome->status_code = 402;
  EXPECT_EQ(KeepRefused(record, Finish(1, failure), Start())->refused_outcome->status_code, 402);
}

}  // namespace
}  // namespace idempotency
