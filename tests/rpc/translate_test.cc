#include "server/rpc/translate.h"

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

constexpr char kAttempt[] = "7b1f0d52-7c35-4f0f-9a62-5a7f3f6f6b11";

Record InProgressRecord() {
  Record record;
  record.key = {"acme", "order-1"};
  record.operation = "POST /orders";
  record.fingerprint_scheme = 1;
  record.labels = {{"order", "17"}};
  record.created_at = absl::FromUnixMicros(1'767'225'600'000'001);
  record.ttl = absl::Hours(24);
  record.attempt = HashAttemptId(kAttempt);
  record.attempt_number = 1;
  record.fencing_token = 1'767'225'600'000'001;
  record.started_at = record.created_at;
  record.lease_duration = absl::Seconds(60);
  record.lease_expires_at = record.created_at + record.lease_duration;
  return record;
}

Record FinishedRecord(Answer answer) {
  Record record = InProgressRecord();
  record.state = StateAfter(answer);
  record.finished_at = record.created_at + absl::Seconds(5);
  record.answer = std::make_shared<const Answer>(std::move(answer));
  return record;
}

Outcome FullOutcome() {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.headers = {{"Set-Cookie", "a"}, {"Location", "/1"}, {"Set-Cookie", std::string("\0", 1)}};
  outcome.content_type = "application/json";
  outcome.body = std::string("{\"a\":\xff\0}", 8);
  outcome.response_id = "pay-1";
  return outcome;
}

v1::BeginResponse BeginResponseOf(BeginVerdict verdict, Record record, absl::Duration age,
                                  bool repeated = false) {
  BeginResult result;
  result.verdict = verdict;
  result.repeated = repeated;
  result.reading.now = record.created_at + age;
  result.record = std::make_shared<const Record>(std::move(record));
  v1::BeginResponse response;
  ToBeginResponse(result, kAttempt, Policy(), &response);
  return response;
}

v1::LookupResponse LookupResponseOf(Record record, absl::Duration age,
                                    bool include_outcome = false) {
  LookupResult result;
  result.reading.now = record.created_at + age;
  result.record = std::make_shared<const Record>(std::move(record));
  v1::LookupResponse response;
  ToLookupResponse(result, include_outcome, Policy(), &response);
  return response;
}

TEST(Translate, TimestampsCountForwardAlsoBeforeTheEpoch) {
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(-1)).seconds(), -1);
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(-1)).nanos(), 999'999'000);
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(1'500'000)).seconds(), 1);
  EXPECT_EQ(ToTimestamp(absl::FromUnixMicros(1'500'000)).nanos(), 500'000'000);
}

TEST(Translate, DurationsKeepTheirNanoseconds) {
  const google::protobuf::Duration message =
      ToProtoDuration(absl::Seconds(3) + absl::Nanoseconds(7));
  EXPECT_EQ(message.seconds(), 3);
  EXPECT_EQ(message.nanos(), 7);
}

TEST(Translate, StartedTellsEverythingAboutTheAttempt) {
  const Record record = InProgressRecord();
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kStarted, record, absl::Seconds(1));
  const Uuid record_id = RecordIdOf(record.key, record.created_at);
  EXPECT_EQ(response.record_id(), UuidText(record_id));
  EXPECT_EQ(response.on_lease_expiry(), v1::LEASE_EXPIRY_ACTION_TAKE_OVER);
  ASSERT_TRUE(response.has_started());
  const v1::Started& started = response.started();
  EXPECT_EQ(started.attempt_id(), kAttempt);
  EXPECT_EQ(started.attempt_number(), 1);
  EXPECT_EQ(started.fencing_token(), 1'767'225'600'000'001);
  EXPECT_EQ(started.lease_remaining().seconds(), 59);
  EXPECT_EQ(started.lease_expire_time().seconds(), 1'767'225'660);
  EXPECT_EQ(started.downstream_key(), UuidText(DownstreamKeyOf(record_id)));
  EXPECT_EQ(started.unknown_attempts(), 0);
  EXPECT_FALSE(started.has_previous_attempt());
  EXPECT_FALSE(started.repeated());
}

TEST(Translate, StartedTellsAboutTheAttemptBefore) {
  Record record = InProgressRecord();
  record.hold = true;
  record.attempt_number = 2;
  record.unknown_attempts = 1;
  record.previous_attempt =
      PreviousAttempt{1, record.created_at, record.created_at + absl::Seconds(1), std::nullopt};
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kStarted, record, absl::Seconds(5), true);
  EXPECT_EQ(response.on_lease_expiry(), v1::LEASE_EXPIRY_ACTION_HOLD);
  EXPECT_EQ(response.started().unknown_attempts(), 1);
  EXPECT_TRUE(response.started().repeated());
  EXPECT_EQ(response.started().previous_attempt().attempt_number(), 1);
  EXPECT_FALSE(response.started().previous_attempt().has_failure());
}

TEST(Translate, StartedTellsHowTheAttemptBeforeFailed) {
  Record record = InProgressRecord();
  record.previous_attempt =
      PreviousAttempt{1, record.created_at, record.created_at,
                      Failure{Disposition::kNotApplied, "declined", "no funds", std::nullopt}};
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kStarted, record, absl::Seconds(5));
  const v1::Failure& failure = response.started().previous_attempt().failure();
  EXPECT_EQ(failure.disposition(), v1::FAILURE_DISPOSITION_NOT_APPLIED);
  EXPECT_EQ(failure.code(), "declined");
  EXPECT_EQ(failure.message(), "no funds");
  EXPECT_FALSE(failure.has_outcome());
}

TEST(Translate, NothingIsLeftOfALeaseThatHasEnded) {
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kStarted, InProgressRecord(), absl::Seconds(61), true);
  EXPECT_TRUE(response.started().has_lease_remaining());
  EXPECT_EQ(response.started().lease_remaining().seconds(), 0);
  EXPECT_EQ(response.started().lease_remaining().nanos(), 0);
}

TEST(Translate, ReplayReturnsTheOutcomeByteForByte) {
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kReplay, FinishedRecord(FullOutcome()), absl::Seconds(9));
  ASSERT_TRUE(response.has_replay());
  const v1::Outcome& outcome = response.replay().outcome();
  EXPECT_EQ(outcome.status_code(), 201);
  ASSERT_EQ(outcome.headers_size(), 3);
  EXPECT_EQ(outcome.headers(0).name(), "Set-Cookie");
  EXPECT_EQ(outcome.headers(1).name(), "Location");
  EXPECT_EQ(outcome.headers(2).value(), std::string("\0", 1));
  EXPECT_EQ(outcome.content_type(), "application/json");
  EXPECT_EQ(outcome.body(), std::string("{\"a\":\xff\0}", 8));
  EXPECT_EQ(outcome.response_id(), "pay-1");
  EXPECT_FALSE(outcome.has_body_size());
  EXPECT_EQ(outcome.body_sha256(), "");
}

TEST(Translate, ReplayTellsTheOriginalsNumberAndTimes) {
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kReplay, FinishedRecord(FullOutcome()), absl::Seconds(9));
  EXPECT_EQ(response.replay().attempt_number(), 1);
  EXPECT_EQ(response.replay().start_time().seconds(), 1'767'225'600);
  EXPECT_EQ(response.replay().finish_time().seconds(), 1'767'225'605);
}

TEST(Translate, ReplayTellsAnAbsentBodyFromAnEmptyOne) {
  Outcome outcome;
  EXPECT_FALSE(BeginResponseOf(BeginVerdict::kReplay, FinishedRecord(outcome), absl::Seconds(9))
                   .replay()
                   .outcome()
                   .has_body());
  outcome.body = "";
  EXPECT_TRUE(BeginResponseOf(BeginVerdict::kReplay, FinishedRecord(outcome), absl::Seconds(9))
                  .replay()
                  .outcome()
                  .has_body());
}

TEST(Translate, ReplaySaysThatABodyWasOmitted) {
  Outcome outcome;
  outcome.body_omitted = true;
  outcome.body_size = 0;
  outcome.body_sha256 = std::string(32, 'd');
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kReplay, FinishedRecord(outcome), absl::Seconds(9));
  EXPECT_TRUE(response.replay().outcome().body_omitted());
  EXPECT_TRUE(response.replay().outcome().has_body_size());
  EXPECT_EQ(response.replay().outcome().body_sha256(), std::string(32, 'd'));
  EXPECT_FALSE(response.replay().outcome().has_body());
}

TEST(Translate, ReplayReturnsAFinalFailure) {
  const v1::BeginResponse response = BeginResponseOf(
      BeginVerdict::kReplay,
      FinishedRecord(Failure{Disposition::kFinal, "declined", "no funds", FullOutcome()}),
      absl::Seconds(9));
  ASSERT_TRUE(response.replay().has_failure());
  EXPECT_EQ(response.replay().failure().disposition(), v1::FAILURE_DISPOSITION_FINAL);
  EXPECT_EQ(response.replay().failure().outcome().status_code(), 201);
}

TEST(Translate, InProgressTellsWhenToAskAgain) {
  const v1::BeginResponse response =
      BeginResponseOf(BeginVerdict::kInProgress, InProgressRecord(), absl::Seconds(1));
  ASSERT_TRUE(response.has_in_progress());
  EXPECT_EQ(response.in_progress().retry_after().seconds(), 2);
  EXPECT_EQ(response.in_progress().lease_remaining().seconds(), 59);
  EXPECT_EQ(response.in_progress().attempt_number(), 1);
  EXPECT_EQ(response.in_progress().start_time().seconds(), 1'767'225'600);
}

TEST(Translate, FinishResponseTellsWhetherItWasRecordedBefore) {
  const Record record = FinishedRecord(FullOutcome());
  OwnerResult result;
  result.verdict = OwnerVerdict::kAlreadyRecorded;
  result.record = std::make_shared<const Record>(record);
  v1::CompleteResponse complete;
  ToCompleteResponse(result, &complete);
  EXPECT_TRUE(complete.already_recorded());
  EXPECT_EQ(complete.record_id(), RecordIdText(record));
  EXPECT_EQ(complete.finish_time().seconds(), 1'767'225'605);
  result.verdict = OwnerVerdict::kRecorded;
  v1::FailResponse fail;
  ToFailResponse(result, &fail);
  EXPECT_FALSE(fail.already_recorded());
}

TEST(Translate, RenewResponseTellsTheLease) {
  const Record record = InProgressRecord();
  OwnerResult result;
  result.verdict = OwnerVerdict::kRenewed;
  result.record = std::make_shared<const Record>(record);
  result.reading.now = record.created_at + absl::Seconds(20);
  v1::RenewResponse response;
  ToRenewResponse(result, &response);
  EXPECT_EQ(response.lease_remaining().seconds(), 40);
  EXPECT_EQ(response.lease_expire_time().seconds(), 1'767'225'660);
  EXPECT_EQ(response.record_id(), RecordIdText(record));
}

TEST(Translate, LookupShowsALiveRecord) {
  const v1::LookupResponse response = LookupResponseOf(InProgressRecord(), absl::Seconds(1));
  EXPECT_EQ(response.operation(), "POST /orders");
  EXPECT_EQ(response.state(), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_FALSE(response.expired());
  EXPECT_TRUE(response.has_create_time());
  EXPECT_TRUE(response.has_start_time());
  EXPECT_FALSE(response.has_finish_time());
  EXPECT_FALSE(response.has_expire_time());
  EXPECT_EQ(response.lease_remaining().seconds(), 59);
  EXPECT_EQ(response.attempt_number(), 1);
  EXPECT_EQ(response.fingerprint_scheme(), 1);
  EXPECT_EQ(response.labels().at("order"), "17");
  EXPECT_FALSE(response.has_outcome());
  EXPECT_FALSE(response.has_refused_outcome());
}

TEST(Translate, LookupNeverShowsTheAttemptId) {
  const std::string shown = LookupResponseOf(InProgressRecord(), absl::Seconds(1)).DebugString();
  EXPECT_EQ(shown.find(kAttempt), std::string::npos);
}

TEST(Translate, LookupShowsAbandonedFromTheInstantTheLeaseIsOver) {
  const absl::Duration over = absl::Seconds(60) + Policy().skew_margin;
  EXPECT_EQ(LookupResponseOf(InProgressRecord(), over).state(), v1::RECORD_STATE_IN_PROGRESS);
  const v1::LookupResponse response =
      LookupResponseOf(InProgressRecord(), over + absl::Microseconds(1));
  EXPECT_EQ(response.state(), v1::RECORD_STATE_ABANDONED);
  EXPECT_FALSE(response.has_lease_remaining());
}

TEST(Translate, LookupShowsASweptRecordAsAbandoned) {
  Record record = InProgressRecord();
  record.state = RecordState::kSwept;
  EXPECT_EQ(LookupResponseOf(record, absl::Hours(1)).state(), v1::RECORD_STATE_ABANDONED);
}

TEST(Translate, LookupShowsHowTheLastAttemptFailed) {
  const auto state_after = [](Disposition disposition) {
    return LookupResponseOf(FinishedRecord(Failure{disposition, "", "", std::nullopt}),
                            absl::Seconds(9));
  };
  EXPECT_EQ(state_after(Disposition::kNotApplied).state(), v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(state_after(Disposition::kFinal).state(), v1::RECORD_STATE_FAILED);
  EXPECT_EQ(state_after(Disposition::kUnknown).state(), v1::RECORD_STATE_ABANDONED);
  EXPECT_EQ(state_after(Disposition::kUnknown).failure().disposition(),
            v1::FAILURE_DISPOSITION_UNKNOWN);
}

TEST(Translate, LookupShowsAnExpiredRecord) {
  const v1::LookupResponse response =
      LookupResponseOf(FinishedRecord(FullOutcome()),
                       absl::Hours(24) + Policy().skew_margin + absl::Microseconds(1));
  EXPECT_TRUE(response.expired());
  EXPECT_EQ(response.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(response.expire_time().seconds(), 1'767'225'600 + 86'400);
}

TEST(Translate, LookupShowsSizeAndDigestWithoutTheBody) {
  const v1::LookupResponse response =
      LookupResponseOf(FinishedRecord(FullOutcome()), absl::Seconds(9));
  EXPECT_FALSE(response.outcome().has_body());
  EXPECT_EQ(response.outcome().body_size(), 8);
  EXPECT_EQ(response.outcome().body_sha256().size(), 32u);
  EXPECT_EQ(response.outcome().headers_size(), 3);
  EXPECT_EQ(response.outcome().response_id(), "pay-1");
}

TEST(Translate, LookupShowsTheBodyWhenAsked) {
  const v1::LookupResponse response =
      LookupResponseOf(FinishedRecord(FullOutcome()), absl::Seconds(9), true);
  EXPECT_EQ(response.outcome().body(), std::string("{\"a\":\xff\0}", 8));
  EXPECT_EQ(response.outcome().body_size(), 8);
}

TEST(Translate, LookupShowsThatAnEmptyBodyWasThere) {
  Outcome outcome;
  outcome.body = "";
  const v1::LookupResponse response = LookupResponseOf(FinishedRecord(outcome), absl::Seconds(9));
  EXPECT_TRUE(response.outcome().has_body_size());
  EXPECT_EQ(response.outcome().body_size(), 0);
  EXPECT_EQ(absl::BytesToHexString(response.outcome().body_sha256()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Translate, LookupShowsNoSizeWhereThereWasNoBody) {
  const v1::LookupResponse response = LookupResponseOf(FinishedRecord(Outcome()), absl::Seconds(9));
  EXPECT_TRUE(response.has_outcome());
  EXPECT_FALSE(response.outcome().has_body_size());
  EXPECT_EQ(response.outcome().body_sha256(), "");
}

TEST(Translate, LookupShowsTheRefusedOutcome) {
  Record record = FinishedRecord(FullOutcome());
  RefusedOutcome refused;
  refused.status_code = 500;
  refused.response_id = "pay-2";
  refused.content_digest.fill(7);
  refused.refused_at = record.created_at + absl::Seconds(7);
  refused.attempt_number = 1;
  record.refused_outcome = refused;
  const v1::LookupResponse response = LookupResponseOf(record, absl::Seconds(9));
  EXPECT_EQ(response.refused_outcome().status_code(), 500);
  EXPECT_EQ(response.refused_outcome().response_id(), "pay-2");
  EXPECT_EQ(response.refused_outcome().content_sha256(), std::string(32, '\7'));
  EXPECT_EQ(response.refused_outcome().refuse_time().seconds(), 1'767'225'607);
  EXPECT_EQ(response.refused_outcome().attempt_number(), 1);
}

}  // namespace
}  // namespace idempotency
