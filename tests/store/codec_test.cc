#include "server/store/postgres/codec.h"

#include <gtest/gtest.h>

#include "idempotency/store/v1/stored.pb.h"

namespace idempotency {
namespace {

namespace stored = ::idempotency::store::v1;

Outcome FullOutcome() {
  Outcome outcome;
  outcome.status_code = -7;
  outcome.headers = {{"Set-Cookie", "a=1"}, {"Set-Cookie", std::string("\0\xff", 2)}};
  outcome.content_type = "application/json";
  outcome.body = std::string("\0{}\xff", 4);
  outcome.response_id = "r-1";
  return outcome;
}

Failure FullFailure(Disposition disposition) {
  Failure failure;
  failure.disposition = disposition;
  failure.code = "declined";
  failure.message = "insufficient funds: €";
  failure.outcome = FullOutcome();
  return failure;
}

void ExpectSurvives(const Answer& answer) {
  const auto decoded = DecodeAnswer(EncodeAnswer(&answer), StateAfter(answer));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(**decoded, answer);
}

Record Base() {
  Record record;
  record.key = {"m1", "k1"};
  record.created_at = absl::FromUnixMicros(1754000000123456);
  record.started_at = record.created_at;
  record.fencing_token = 1754000000123456;
  return record;
}

absl::StatusOr<Record> HistoryAgain(const Record& record) {
  Record decoded;
  decoded.created_at = record.created_at;
  const absl::Status status = DecodeHistory(EncodeHistory(record), decoded);
  if (!status.ok()) return status;
  return decoded;
}

TEST(CodecAnswer, SurvivesAsOutcome) { ExpectSurvives(FullOutcome()); }

TEST(CodecAnswer, SurvivesAsFailureOfEveryDisposition) {
  ExpectSurvives(FullFailure(Disposition::kNotApplied));
  ExpectSurvives(FullFailure(Disposition::kFinal));
  ExpectSurvives(FullFailure(Disposition::kUnknown));
}

TEST(CodecAnswer, SurvivesWithoutAnyField) { ExpectSurvives(Outcome()); }

TEST(CodecAnswer, TellsAnAbsentBodyFromAnEmptyOne) {
  Outcome absent, empty;
  empty.body = "";
  EXPECT_NE(EncodeAnswer(std::make_unique<Answer>(absent).get()),
            EncodeAnswer(std::make_unique<Answer>(empty).get()));
  ExpectSurvives(absent);
  ExpectSurvives(empty);
}

TEST(CodecAnswer, SurvivesWithAnOmittedBody) {
  Outcome outcome;
  outcome.body_omitted = true;
  outcome.body_size = 0;
  outcome.body_sha256 = std::string(32, '\x9f');
  ExpectSurvives(outcome);
}

TEST(CodecAnswer, TellsAFailureWithoutOutcomeFromOneWithAnEmptyOne) {
  Failure absent, empty;
  empty.outcome.emplace();
  ExpectSurvives(absent);
  ExpectSurvives(empty);
}

TEST(CodecAnswer, IsEmptyWhenThereIsNone) {
  EXPECT_EQ(EncodeAnswer(nullptr), "");
  const auto decoded = DecodeAnswer("", RecordState::kInProgress);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, nullptr);
  EXPECT_TRUE(DecodeAnswer("", RecordState::kSwept).ok());
}

TEST(CodecAnswer, IsRefusedWhenItsBytesAreBroken) {
  EXPECT_FALSE(DecodeAnswer("\xff", RecordState::kCompleted).ok());
}

TEST(CodecAnswer, IsRefusedWhenAFailedRecordHasNone) {
  EXPECT_FALSE(DecodeAnswer("", RecordState::kFailedFinal).ok());
  EXPECT_FALSE(DecodeAnswer("", RecordState::kFailedUnknown).ok());
}

TEST(CodecAnswer, IsRefusedWhenAnUnfinishedRecordHasOne) {
  const Answer answer = FullOutcome();
  EXPECT_FALSE(DecodeAnswer(EncodeAnswer(&answer), RecordState::kInProgress).ok());
}

TEST(CodecAnswer, IsRefusedWhenItLeadsToAnotherState) {
  const Answer answer = FullFailure(Disposition::kNotApplied);
  EXPECT_FALSE(DecodeAnswer(EncodeAnswer(&answer), RecordState::kFailedFinal).ok());
}

TEST(CodecAnswer, IsRefusedWithADispositionThatNobodyKnows) {
  stored::StoredFailure message;
  message.set_disposition(4);
  EXPECT_FALSE(DecodeAnswer(message.SerializeAsString(), RecordState::kFailedUnknown).ok());
}

TEST(CodecHistory, IsEmptyForAFirstAttempt) { EXPECT_EQ(EncodeHistory(Base()), ""); }

TEST(CodecHistory, OfNothingStartsTheAttemptWithTheRecord) {
  const auto decoded = HistoryAgain(Base());
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->started_at, Base().created_at);
  EXPECT_EQ(decoded->unknown_attempts, 0);
  EXPECT_FALSE(decoded->previous_attempt.has_value());
  EXPECT_FALSE(decoded->refused_outcome.has_value());
}

TEST(CodecHistory, SurvivesWhole) {
  Record record = Base();
  record.started_at = record.created_at + absl::Microseconds(1);
  record.fencing_token += 12;
  for (int i = 0; i < 8; ++i) {
    record.earlier_attempts.push_back(HashAttemptId(std::to_string(i)));
  }
  record.unknown_attempts = 3;
  record.previous_attempt =
      PreviousAttempt{8, record.created_at, record.created_at + absl::Microseconds(999'999),
                      FullFailure(Disposition::kUnknown)};
  RefusedOutcome refused;
  refused.status_code = 500;
  refused.response_id = "late";
  refused.content_digest.fill(0xfe);
  refused.refused_at = record.created_at + absl::Hours(1);
  refused.attempt_number = 2;
  record.refused_outcome = refused;

  const auto decoded = HistoryAgain(record);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->fencing_token, record.fencing_token);
  EXPECT_EQ(decoded->started_at, record.started_at);
  EXPECT_EQ(decoded->earlier_attempts, record.earlier_attempts);
  EXPECT_EQ(decoded->unknown_attempts, 3);
  EXPECT_EQ(decoded->previous_attempt, record.previous_attempt);
  EXPECT_EQ(decoded->refused_outcome, record.refused_outcome);
}

TEST(CodecHistory, SurvivesWhenThePreviousLeaseRanOut) {
  Record record = Base();
  record.previous_attempt = PreviousAttempt{1, record.created_at, record.created_at, std::nullopt};
  const auto decoded = HistoryAgain(record);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->previous_attempt, record.previous_attempt);
}

TEST(CodecHistory, IsRefusedWhenItsBytesAreBroken) {
  Record record = Base();
  EXPECT_FALSE(DecodeHistory("\xff", record).ok());
}

TEST(CodecHistory, IsRefusedWhenAnAttemptHashIsCut) {
  stored::StoredHistory message;
  message.add_earlier_attempts(std::string(15, 'x'));
  Record record = Base();
  EXPECT_FALSE(DecodeHistory(message.SerializeAsString(), record).ok());
}

TEST(CodecHistory, IsRefusedWhenARefusedOutcomesDigestIsCut) {
  stored::StoredHistory message;
  message.mutable_refused_outcome()->set_content_sha256(std::string(31, 'x'));
  Record record = Base();
  EXPECT_FALSE(DecodeHistory(message.SerializeAsString(), record).ok());
}

TEST(CodecHistory, IsRefusedWhenThePreviousFailureIsOfNoKnownKind) {
  stored::StoredHistory message;
  message.mutable_previous_attempt()->mutable_failure()->set_disposition(0);
  Record record = Base();
  EXPECT_FALSE(DecodeHistory(message.SerializeAsString(), record).ok());
}

TEST(CodecLabels, AreEmptyWhenThereAreNone) {
  EXPECT_EQ(EncodeLabels({}), "");
  const auto decoded = DecodeLabels("");
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->empty());
}

TEST(CodecLabels, Survive) {
  const Labels labels = {{"order", "o-1"}, {"empty", ""}, {"euro", "€"}};
  const auto decoded = DecodeLabels(EncodeLabels(labels));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, labels);
}

TEST(CodecLabels, AreRefusedWhenTheirBytesAreBroken) { EXPECT_FALSE(DecodeLabels("\xff").ok()); }

TEST(CodecFlags, HaveABitEach) {
  EXPECT_EQ(EncodeFlags(false, false, 0), 0);
  EXPECT_EQ(EncodeFlags(true, false, 0), 1);
  EXPECT_EQ(EncodeFlags(false, true, 0), 2);
  EXPECT_EQ(EncodeFlags(false, false, 1), 256);
  EXPECT_EQ(EncodeFlags(true, true, 1), 259);
}

}  // namespace
}  // namespace idempotency
