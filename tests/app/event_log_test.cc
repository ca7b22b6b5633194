#include "server/app/event_log.h"

#include <memory>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() : log_(ErrorsTo(&output_)), events_(&log_) {}

  // Only errors: what must be written is, all the same.
  static LogOptions ErrorsTo(std::ostream* output) {
    LogOptions options;
    options.output = output;
    options.level = LogLevel::kError;
    return options;
  }

  static Record SecondAttempt() {
    Record record;
    record.key = {"acme", "order-1"};
    record.operation = "POST /orders";
    record.created_at = absl::FromUnixSeconds(1'767'225'600);
    record.attempt_number = 2;
    record.unknown_attempts = 1;
    record.fencing_token = 7;
    record.previous_attempt =
        PreviousAttempt{1, record.created_at, record.created_at, std::nullopt};
    return record;
  }

  static TraceId Trace() {
    TraceId trace;
    trace.hex.fill('a');
    return trace;
  }
  static testing::Matcher<std::string> HasTrace() {
    return HasSubstr("\"trace_id\":\"" + std::string(32, 'a') + "\"");
  }

  std::string Written() {
    log_.Stop();
    return output_.str();
  }

  std::ostringstream output_;
  Log log_;
  EventLog events_;
};

TEST_F(EventLogTest, ATakeoverIsWritten) {
  events_.OnTakeover(SecondAttempt(), Trace());
  EXPECT_THAT(Written(),
              AllOf(HasSubstr("\"event\":\"takeover\""), HasSubstr("\"merchant\":\"acme\""),
                    HasSubstr("\"key\":\"order-1\""), HasSubstr("\"attempt_number\":2"),
                    HasSubstr("\"unknown_attempts\":1"), HasSubstr("\"fencing_token\":7"),
                    HasSubstr("\"previous_ended\":\"lease_over\""), HasTrace()));
}

TEST_F(EventLogTest, ATakeoverTellsHowTheAttemptBeforeEnded) {
  Record record = SecondAttempt();
  record.previous_attempt->failure = Failure{Disposition::kUnknown, "", "", std::nullopt};
  events_.OnTakeover(record, {});
  EXPECT_THAT(Written(), AllOf(HasSubstr("\"previous_ended\":\"failed_unknown\""),
                               Not(HasSubstr("trace_id"))));
}

TEST_F(EventLogTest, AResumeIsWritten) {
  events_.OnResume(SecondAttempt(), Trace());
  EXPECT_THAT(Written(), AllOf(HasSubstr("\"event\":\"resume\""), HasTrace()));
}

TEST_F(EventLogTest, ASweepIsWritten) {
  events_.OnSwept({{"acme", "order-1"}, absl::FromUnixSeconds(1), 3, RecordState::kSwept});
  EXPECT_THAT(Written(),
              AllOf(HasSubstr("\"event\":\"swept\""), HasSubstr("\"attempt_number\":3")));
}

TEST_F(EventLogTest, ADeletionOfAnUnsettledRecordIsWritten) {
  events_.OnPurgedUnsettled(
      {{"acme", "order-1"}, absl::FromUnixSeconds(1), 3, RecordState::kSwept});
  EXPECT_THAT(Written(), HasSubstr("\"event\":\"purged_unsettled\""));
}

TEST_F(EventLogTest, ARefusedOutcomeIsWrittenWithoutItsContent) {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.response_id = "pay-1";
  outcome.body = "S3CR3T";
  outcome.headers = {{"Authorization", "S3CR3T"}};
  OwnerItem item;
  item.key = {"acme", "order-1"};
  item.attempt = HashAttemptId("S3CR3T");
  item.answer = std::make_shared<const Answer>(outcome);
  OwnerResult result;
  result.verdict = OwnerVerdict::kLeaseLost;
  result.record = std::make_shared<const Record>(SecondAttempt());
  events_.OnRefusedOutcome(item, result, Trace());
  EXPECT_THAT(
      Written(),
      AllOf(HasSubstr("\"event\":\"refused_outcome\""), HasSubstr("\"reason\":\"LEASE_LOST\""),
            HasSubstr("\"kind\":\"complete\""), HasSubstr("\"status_code\":201"),
            HasSubstr("\"response_id\":\"pay-1\""), HasSubstr("\"content_sha256\":\""),
            HasSubstr("\"last_attempt_number\":2"), HasTrace(), Not(HasSubstr("S3CR3T"))));
}

TEST_F(EventLogTest, ARefusedFailureOfNoRecordIsWritten) {
  OwnerItem item;
  item.key = {"acme", "order-1"};
  item.answer = std::make_shared<const Answer>(
      Failure{Disposition::kUnknown, "S3CR3T", "S3CR3T", std::nullopt});
  OwnerResult result;
  result.verdict = OwnerVerdict::kRecordNotFound;
  events_.OnRefusedOutcome(item, result, {});
  EXPECT_THAT(Written(), AllOf(HasSubstr("\"reason\":\"RECORD_NOT_FOUND\""),
                               HasSubstr("\"kind\":\"fail\""), Not(HasSubstr("S3CR3T"))));
}

TEST_F(EventLogTest, AnAnswerThatWasGivenUpIsWrittenWithoutItsContent) {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.response_id = "pay-1";
  outcome.body = "S3CR3T";
  OwnerItem item;
  item.key = {"acme", "order-1"};
  item.answer = std::make_shared<const Answer>(outcome);
  events_.OnGivenUp(item, MakeFault(Fault::kCommitUnknown, "the answer was lost"), Trace());
  EXPECT_THAT(
      Written(),
      AllOf(HasSubstr("\"level\":\"error\""), HasSubstr("\"event\":\"given_up\""),
            HasSubstr("\"status_code\":201"), HasSubstr("\"response_id\":\"pay-1\""),
            HasSubstr("\"content_sha256\":\""), HasSubstr("\"effect_unknown\":true"),
            HasSubstr("\"detail\":\"the answer was lost\""), HasTrace(), Not(HasSubstr("S3CR3T"))));
}

TEST_F(EventLogTest, AFailedMaintenanceStepIsAnOrdinaryLine) {
  events_.OnMaintenanceFailed(absl::UnavailableError("away"));
  EXPECT_EQ(Written(), "");
}

}  // namespace
}  // namespace idempotency
