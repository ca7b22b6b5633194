// What RunOnce answers, through the real service.
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

class RunOnceTest : public ClientTest {
 protected:
  RunResult Run(const Work& fn, const RunOptions& options = {},
                OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver) {
    return client_->RunOnce(key_, PaymentOf(), on_lease_expiry, fn, options);
  }

  const std::unique_ptr<Client> client_ = NewClient();
};

TEST_F(RunOnceTest, RunsTheWorkAndRecordsItsOutcome) {
  int runs = 0;
  const auto completed = ResultAs<Completed>(Run([&](const Attempt&) {
    ++runs;
    return Done();
  }));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(completed.outcome.body, "paid");
  EXPECT_EQ(completed.attempt_number, 1);
  const auto record = Lookup();
  EXPECT_EQ(record.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(record.record_id(), completed.record_id);
  EXPECT_EQ(record.outcome().body(), "paid");
  EXPECT_GT(completed.finish_time.time_since_epoch().count(), 0);
}

TEST_F(RunOnceTest, SecondCallReplaysTheSameAnswerWithoutTheWork) {
  const auto completed =
      ResultAs<Completed>(Run([](const Attempt&) { return Done(std::string("p\0q", 3)); }));
  const auto replayed = ResultAs<Replayed>(Run(MustNotRun));
  const auto& outcome = std::get<Outcome>(replayed.answer);
  EXPECT_EQ(outcome.status_code, 201);
  ASSERT_EQ(outcome.headers.size(), 3);
  EXPECT_EQ(outcome.headers[2].name, "Set-Cookie");
  EXPECT_EQ(outcome.headers[2].value, "b");
  EXPECT_EQ(outcome.content_type, "text/plain");
  EXPECT_EQ(outcome.body, completed.outcome.body);
  EXPECT_EQ(outcome.response_id, "pay-1");
  EXPECT_FALSE(outcome.body_omitted);
  EXPECT_EQ(replayed.record_id, completed.record_id);
  EXPECT_EQ(replayed.attempt_number, 1);
  EXPECT_EQ(replayed.finish_time, completed.finish_time);
  EXPECT_LE(replayed.start_time, replayed.finish_time);
}

TEST_F(RunOnceTest, AbsentAndEmptyBodiesStayApart) {
  (void)Run([](const Attempt&) { return WorkResult::Completed({}); });
  EXPECT_EQ(OutcomeOf(Run(MustNotRun))->body, std::nullopt);
  const auto other = NewKey();
  const auto run = [&](const Work& fn) {
    return client_->RunOnce(other, PaymentOf(), OnLeaseExpiry::kTakeOver, fn);
  };
  (void)run([](const Attempt&) { return Done(""); });
  EXPECT_EQ(OutcomeOf(run(MustNotRun))->body, "");
}

TEST_F(RunOnceTest, FinalFailureIsReplayed) {
  Outcome declined;
  declined.status_code = 402;
  const auto failed = ResultAs<Failed>(Run([&](const Attempt&) {
    return WorkResult::FinalFailure("DECLINED", "by the bank", declined);
  }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kFinal);
  const auto replayed = ResultAs<Replayed>(Run(MustNotRun));
  const auto& failure = std::get<Failure>(replayed.answer);
  EXPECT_EQ(failure.disposition, FailureDisposition::kFinal);
  EXPECT_EQ(failure.code, "DECLINED");
  EXPECT_EQ(failure.message, "by the bank");
  EXPECT_EQ(failure.outcome->status_code, 402);
}

TEST_F(RunOnceTest, NotAppliedFreesTheKeyForAnAttemptWithTheSameDownstreamKey) {
  Attempt first;
  const auto failed = ResultAs<Failed>(Run([&](const Attempt& attempt) {
    first = attempt;
    return WorkResult::NotApplied("NO_ROUTE", "never sent");
  }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kNotApplied);
  const auto completed = ResultAs<Completed>(Run([&](const Attempt& attempt) {
    EXPECT_EQ(attempt.attempt_number, 2);
    EXPECT_EQ(attempt.unknown_attempts, 0);
    EXPECT_GT(attempt.fencing_token, first.fencing_token);
    EXPECT_EQ(attempt.downstream_key, first.downstream_key);
    EXPECT_EQ(attempt.downstream_key.size(), 36);
    EXPECT_EQ(attempt.previous_attempt->attempt_number, 1);
    EXPECT_EQ(attempt.previous_attempt->failure->code, "NO_ROUTE");
    return Done();
  }));
  EXPECT_EQ(completed.attempt_number, 2);
}

TEST_F(RunOnceTest, ThrowingWorkIsUnknownAndItsExceptionTheCallers) {
  const auto failed = ResultAs<Failed>(
      Run([](const Attempt&) -> WorkResult { throw std::runtime_error("card 4111"); }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kUnknown);
  EXPECT_THROW(std::rethrow_exception(failed.exception), std::runtime_error);
  const auto record = Lookup();
  EXPECT_EQ(record.state(), v1::RECORD_STATE_ABANDONED);
  EXPECT_EQ(record.failure().disposition(), v1::FAILURE_DISPOSITION_UNKNOWN);
  EXPECT_THAT(record.failure().message(), testing::Not(testing::HasSubstr("4111")));
  (void)ResultAs<Completed>(Run([&](const Attempt& attempt) {
    EXPECT_EQ(attempt.unknown_attempts, 1);
    return Done();
  }));
}

TEST_F(RunOnceTest, WorkThatThrowsNoExceptionIsUnknownToo) {
  const auto failed = ResultAs<Failed>(Run([](const Attempt&) -> WorkResult { throw 7; }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kUnknown);
}

TEST_F(RunOnceTest, ClassifySaysWhatAnExceptionMeans) {
  RunOptions options;
  options.classify = [](const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::invalid_argument&) {
      return FailureDisposition::kNotApplied;
    } catch (const std::domain_error&) {
      return FailureDisposition::kFinal;
    }
    // Others leave this function, and are unknown.
  };
  const auto disposition = [&](auto exception) {
    return ResultAs<Failed>(Run([&](const Attempt&) -> WorkResult { throw exception; }, options))
        .failure.disposition;
  };
  EXPECT_EQ(disposition(std::invalid_argument("")), FailureDisposition::kNotApplied);
  EXPECT_EQ(disposition(std::runtime_error("")), FailureDisposition::kUnknown);
  EXPECT_EQ(disposition(std::domain_error("")), FailureDisposition::kFinal);
  EXPECT_EQ(Lookup().state(), v1::RECORD_STATE_FAILED);
}

TEST_F(RunOnceTest, UnknownUnderHoldNeedsResolution) {
  const auto unknown = [](const Attempt& attempt) {
    EXPECT_EQ(attempt.on_lease_expiry, OnLeaseExpiry::kHold);
    return WorkResult::Unknown("TIMEOUT", "no answer");
  };
  (void)ResultAs<Failed>(Run(unknown, {}, OnLeaseExpiry::kHold));
  const auto error = ResultAs<Error>(Run(MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kNeedsResolution);
  EXPECT_EQ(error.reason, "NEEDS_RESOLUTION");
  EXPECT_FALSE(error.work.has_value());
}

TEST_F(RunOnceTest, OtherRequestUnderTheKeyIsKeyReused) {
  (void)Run([](const Attempt&) { return Done(); });
  const auto error =
      ResultAs<Error>(client_->RunOnce(key_, PaymentOf(999), OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kKeyReused);
  EXPECT_EQ(error.metadata.at("state"), "COMPLETED");
  EXPECT_EQ(error.metadata.at("record_id"), Lookup().record_id());
}

TEST_F(RunOnceTest, FingerprintIsComparedLikeABody) {
  const Request request("POST /payments", Fingerprint{std::string(32, 'f')});
  (void)client_->RunOnce(key_, request, OnLeaseExpiry::kTakeOver,
                         [](const Attempt&) { return Done(); });
  (void)ResultAs<Replayed>(client_->RunOnce(key_, request, OnLeaseExpiry::kTakeOver, MustNotRun));
  const Request other("POST /payments", Fingerprint{std::string(32, 'g')});
  const auto error =
      ResultAs<Error>(client_->RunOnce(key_, other, OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kKeyReused);
}

TEST_F(RunOnceTest, InvalidFieldsAreNamedByTheService) {
  const Key bad = {"a b", std::string(256, 'k')};
  const auto error =
      ResultAs<Error>(client_->RunOnce(bad, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kInvalidField);
  EXPECT_THAT(FieldsOf(error), testing::UnorderedElementsAre("merchant_id", "idempotency_key"));
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

TEST_F(RunOnceTest, KeysTtlCountsWhereTheOptionsHaveNone) {
  Key key = NewKey();
  key.ttl = std::chrono::hours(24 * 30);
  const auto run = [&](const RunOptions& options) {
    (void)client_->RunOnce(
        key, PaymentOf(), OnLeaseExpiry::kTakeOver, [](const Attempt&) { return Done(); }, options);
  };
  run({});
  RunOptions options;
  options.ttl = std::chrono::hours(1);
  run(options);
  const auto begins = proxy_.RequestsAs<v1::BeginRequest>("Begin");
  EXPECT_EQ(begins.at(0).ttl().seconds(), 30 * 24 * 3600);
  EXPECT_EQ(begins.at(1).ttl().seconds(), 3600);
}

TEST_F(RunOnceTest, OptionsReachTheService) {
  RunOptions options;
  options.ttl = std::chrono::hours(2);
  options.lease_duration = std::chrono::milliseconds(45'678);
  options.labels = {{"order", "1001"}};
  (void)Run([](const Attempt&) { return Done(); }, options);
  const auto begin = proxy_.RequestsAs<v1::BeginRequest>("Begin").at(0);
  EXPECT_EQ(begin.ttl().seconds(), 7200);
  EXPECT_EQ(begin.lease_duration().seconds(), 45);
  EXPECT_EQ(begin.lease_duration().nanos(), 678'000'000);
  EXPECT_EQ(Lookup().labels().at("order"), "1001");
  EXPECT_EQ(Lookup().operation(), "POST /payments");
}

TEST_F(RunOnceTest, OptionsOutOfBoundsAreRefusedAndNotCut) {
  RunOptions options;
  options.lease_duration = std::chrono::hours(2);
  const auto error = ResultAs<Error>(Run(MustNotRun, options));
  EXPECT_EQ(error.kind, ErrorKind::kInvalidField);
  EXPECT_EQ(error.violations.at(0).field, "lease_duration");
}

TEST_F(RunOnceTest, WhatTheClientSeesIsWrongIsNotSent) {
  EXPECT_EQ(ResultAs<Error>(Run(nullptr)).kind, ErrorKind::kInvalidField);
  EXPECT_EQ(std::get<Error>(client_->Lookup({"acme", ""})).kind, ErrorKind::kInvalidField);
  EXPECT_EQ(proxy_.Count("Begin"), 0);
  EXPECT_EQ(proxy_.Count("Lookup"), 0);
}

TEST_F(RunOnceTest, ClientWithOptionsThatCannotBeRefusesEveryCall) {
  const auto fields = [&](auto change) {
    ClientOptions options = QuickOptions();
    change(&options);
    const auto client = NewClient(options);
    EXPECT_EQ(std::get<Error>(client->Lookup(key_)).kind, ErrorKind::kInvalidField);
    return FieldsOf(
        ResultAs<Error>(client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun)));
  };
  using std::chrono::milliseconds;
  EXPECT_THAT(fields([](auto* options) { options->rpc_timeout = milliseconds(0); }),
              testing::ElementsAre("rpc_timeout"));
  EXPECT_THAT(fields([](auto* options) { options->record_timeout = milliseconds(-1); }),
              testing::ElementsAre("record_timeout"));
  EXPECT_THAT(fields([](auto* options) { options->shutdown_timeout = milliseconds(-1); }),
              testing::ElementsAre("shutdown_timeout"));
}

TEST_F(RunOnceTest, SecondCallMeanwhileIsInProgress) {
  (void)ResultAs<Completed>(Run([&](const Attempt&) {
    const auto in_progress = ResultAs<InProgress>(RunElsewhere(MustNotRun));
    EXPECT_GE(in_progress.retry_after, std::chrono::milliseconds(100));
    EXPECT_GT(in_progress.lease_remaining, std::chrono::seconds(30));
    EXPECT_EQ(in_progress.attempt_number, 1);
    return Done();
  }));
}

TEST_F(RunOnceTest, WaitingCallGetsTheOthersOutcome) {
  RunResult waited;
  std::thread waiter;
  (void)ResultAs<Completed>(Run([&](const Attempt&) {
    waiter = std::thread([&] {
      RunOptions options;
      options.wait_timeout = std::chrono::seconds(30);
      const auto second = NewClient();
      waited = second->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun, options);
    });
    EXPECT_TRUE(Eventually([&] { return proxy_.Count("Begin") == 2; }));
    return Done();
  }));
  waiter.join();
  EXPECT_EQ(std::get<Outcome>(ResultAs<Replayed>(waited).answer).body, "paid");
  EXPECT_TRUE(proxy_.RequestsAs<v1::BeginRequest>("Begin").at(1).has_wait_timeout());
}

TEST_F(RunOnceTest, WaitThatEndsWithoutAnOutcomeIsInProgress) {
  (void)ResultAs<Completed>(Run([&](const Attempt&) {
    RunOptions options;
    options.wait_timeout = std::chrono::milliseconds(300);
    (void)ResultAs<InProgress>(RunElsewhere(MustNotRun, options));
    return Done();
  }));
}

TEST_F(RunOnceTest, BodyOfTheLargestSizeIsRecordedWhole) {
  const std::string body(256 * 1024, 'b');
  const auto completed = ResultAs<Completed>(Run([&](const Attempt&) { return Done(body); }));
  EXPECT_FALSE(completed.recorded_without_body);
  EXPECT_EQ(OutcomeOf(Run(MustNotRun))->body, body);
}

TEST_F(RunOnceTest, LargerBodyIsRecordedByItsSizeAndDigest) {
  const std::string body(256 * 1024 + 1, 'b');
  const auto completed = ResultAs<Completed>(Run([&](const Attempt&) { return Done(body); }));
  EXPECT_TRUE(completed.recorded_without_body);
  EXPECT_EQ(completed.outcome.body, body);
  const RunResult replayed = Run(MustNotRun);
  const Outcome& outcome = *OutcomeOf(replayed);
  EXPECT_TRUE(outcome.body_omitted);
  EXPECT_EQ(outcome.body, std::nullopt);
  EXPECT_EQ(outcome.body_size, 256 * 1024 + 1);
  EXPECT_EQ(outcome.body_sha256.size(), 32);
  EXPECT_EQ(outcome.status_code, 201);
}

TEST_F(RunOnceTest, BodyOverTheReceiveLimitIsRecordedByItsSizeAndDigest) {
  const auto completed =
      ResultAs<Completed>(Run([&](const Attempt&) { return Done(std::string(5 << 20, 'b')); }));
  EXPECT_TRUE(completed.recorded_without_body);
  EXPECT_EQ(OutcomeOf(Run(MustNotRun))->body_size, 5 << 20);
}

TEST_F(RunOnceTest, FailureWithATooLargeOutcomeIsRecordedByItsSizeAndDigest) {
  Outcome page;
  page.body = std::string(300 * 1024, 'x');
  const auto failed = ResultAs<Failed>(
      Run([&](const Attempt&) { return WorkResult::FinalFailure("NO", "no", page); }));
  EXPECT_TRUE(failed.recorded_without_body);
  EXPECT_EQ(Lookup().failure().outcome().body_size(), 300 * 1024);
}

TEST_F(RunOnceTest, FailureWithOverlongAndBrokenWordsIsRecorded) {
  const auto failed = ResultAs<Failed>(Run([](const Attempt&) {
    return WorkResult::NotApplied(std::string(65, 'c'), "\xFF" + std::string(2000, 'm'));
  }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kNotApplied);
  EXPECT_EQ(Lookup().state(), v1::RECORD_STATE_RELEASED);
  EXPECT_EQ(Lookup().failure().code(), std::string(64, 'c'));
  EXPECT_EQ(Lookup().failure().message(), "?" + std::string(1023, 'm'));
}

TEST_F(RunOnceTest, OutcomeThatTheServiceRefusesComesBackWithTheError) {
  const auto error = ResultAs<Error>(Run([](const Attempt&) {
    Outcome outcome;
    outcome.response_id = std::string(256, 'r');
    return WorkResult::Completed(std::move(outcome));
  }));
  EXPECT_EQ(error.kind, ErrorKind::kInvalidField);
  EXPECT_EQ(error.violations.at(0).field, "outcome.response_id");
  EXPECT_EQ(error.work->outcome()->response_id.size(), 256);
}

TEST_F(RunOnceTest, RequestOverTheReceiveLimitIsTooLargeAndDoesNotRun) {
  const Request request("POST /files", Payload{std::string(5 << 20, 'x'), ""});
  const auto error =
      ResultAs<Error>(client_->RunOnce(key_, request, OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kRequestTooLarge);
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

TEST_F(RunOnceTest, AttemptIdsAreFreshForEveryCall) {
  (void)Run([](const Attempt&) { return Done(); });
  (void)Run(MustNotRun);
  const auto begins = proxy_.RequestsAs<v1::BeginRequest>("Begin");
  ASSERT_EQ(begins.size(), 2);
  EXPECT_NE(begins[0].attempt_id(), begins[1].attempt_id());
  EXPECT_THAT(begins[0].attempt_id(),
              testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                    "[0-9a-f]{12}"));
}

TEST_F(RunOnceTest, LookupShowsTheRecordAndItsBodyOnlyWhenAsked) {
  (void)Run([](const Attempt&) { return Done(); });
  const auto without = client_->Lookup(key_);
  const auto& record = std::get<Record>(without);
  EXPECT_EQ(record.state, RecordState::kCompleted);
  EXPECT_EQ(record.operation, "POST /payments");
  EXPECT_EQ(record.outcome->body, std::nullopt);
  EXPECT_EQ(record.outcome->body_size, 4);
  EXPECT_TRUE(record.expire_time.has_value());
  EXPECT_EQ(std::get<Record>(client_->Lookup(key_, true)).outcome->body, "paid");
}

TEST_F(RunOnceTest, LookupOfAnUnknownKeyIsRecordNotFound) {
  EXPECT_EQ(std::get<Error>(client_->Lookup(key_)).kind, ErrorKind::kRecordNotFound);
}

}  // namespace
}  // namespace idempotency::client
