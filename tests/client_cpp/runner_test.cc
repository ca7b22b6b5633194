// What application code may rely on, whichever Runner it is given: the fake answers as the service.
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client/fake_runner.h"
#include "tests/client_cpp/client_fixture.h"

namespace idempotency::client {
namespace {

using NewRunner = std::function<std::unique_ptr<Runner>()>;

class RunnerTest : public testing::TestWithParam<NewRunner> {
 protected:
  RunResult Run(const Work& fn, const RunOptions& options = {},
                OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver) {
    return runner_->RunOnce(key_, PaymentOf(), on_lease_expiry, fn, options);
  }

  const std::unique_ptr<Runner> runner_ = GetParam()();
  const Key key_ = NewKey();
};

INSTANTIATE_TEST_SUITE_P(Runners, RunnerTest,
                         testing::Values(NewRunner([] { return std::make_unique<FakeRunner>(); }),
                                         NewRunner([] {
                                           return std::make_unique<Client>(
                                               ChannelsTo(SharedService().address(0)),
                                               QuickOptions());
                                         })),
                         [](const auto& each) { return each.index == 0 ? "Fake" : "Client"; });

TEST_P(RunnerTest, CompletesThenReplays) {
  const auto completed = ResultAs<Completed>(Run([](const Attempt& attempt) {
    EXPECT_EQ(attempt.attempt_number, 1);
    EXPECT_EQ(attempt.unknown_attempts, 0);
    EXPECT_FALSE(attempt.previous_attempt.has_value());
    EXPECT_EQ(attempt.downstream_key.size(), 36);
    EXPECT_FALSE(attempt.stop.stop_requested());
    EXPECT_EQ(attempt.stop_reason(), StopReason::kNone);
    EXPECT_GT(attempt.lease_remaining().count(), 0);
    return Done();
  }));
  const auto replayed = ResultAs<Replayed>(Run(MustNotRun));
  EXPECT_EQ(std::get<Outcome>(replayed.answer).body, "paid");
  EXPECT_EQ(replayed.record_id, completed.record_id);
  EXPECT_EQ(replayed.finish_time, completed.finish_time);
  EXPECT_EQ(replayed.attempt_number, 1);
}

TEST_P(RunnerTest, FinalFailureIsReplayed) {
  (void)ResultAs<Failed>(
      Run([](const Attempt&) { return WorkResult::FinalFailure("DECLINED", "no"); }));
  const auto replayed = ResultAs<Replayed>(Run(MustNotRun));
  EXPECT_EQ(std::get<Failure>(replayed.answer).code, "DECLINED");
}

TEST_P(RunnerTest, LongWordsOfAFailureAreCutInEveryAnswer) {
  const std::string words(1023, 'm');
  const auto failed = ResultAs<Failed>(Run(
      [&](const Attempt&) { return WorkResult::FinalFailure(std::string(65, 'c'), words + "€"); }));
  EXPECT_EQ(failed.failure.code, std::string(64, 'c'));
  EXPECT_EQ(failed.failure.message, words);
  const auto replayed = ResultAs<Replayed>(Run(MustNotRun));
  EXPECT_EQ(std::get<Failure>(replayed.answer).code, failed.failure.code);
  EXPECT_EQ(std::get<Failure>(replayed.answer).message, failed.failure.message);
}

TEST_P(RunnerTest, NotAppliedStartsTheNextAttempt) {
  Attempt first;
  (void)Run([&](const Attempt& attempt) {
    first = attempt;
    return WorkResult::NotApplied("NO_ROUTE", "");
  });
  (void)ResultAs<Completed>(Run([&](const Attempt& attempt) {
    EXPECT_EQ(attempt.attempt_number, 2);
    EXPECT_EQ(attempt.unknown_attempts, 0);
    EXPECT_EQ(attempt.record_id, first.record_id);
    EXPECT_EQ(attempt.downstream_key, first.downstream_key);
    EXPECT_GT(attempt.fencing_token, first.fencing_token);
    EXPECT_EQ(attempt.previous_attempt->failure->code, "NO_ROUTE");
    return Done();
  }));
}

TEST_P(RunnerTest, ThrowingWorkIsUnknownAndTheNextAttemptIsTold) {
  const auto failed = ResultAs<Failed>(
      Run([](const Attempt&) -> WorkResult { throw std::runtime_error("reset"); }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kUnknown);
  EXPECT_TRUE(failed.exception != nullptr);
  (void)ResultAs<Completed>(Run([](const Attempt& attempt) {
    EXPECT_EQ(attempt.unknown_attempts, 1);
    EXPECT_EQ(attempt.previous_attempt->failure->disposition, FailureDisposition::kUnknown);
    return Done();
  }));
}

TEST_P(RunnerTest, ClassifiedExceptionsAreWhatTheyAreSaidToBe) {
  RunOptions options;
  options.classify = [](const std::exception_ptr&) { return FailureDisposition::kFinal; };
  (void)ResultAs<Failed>(
      Run([](const Attempt&) -> WorkResult { throw std::runtime_error(""); }, options));
  (void)ResultAs<Replayed>(Run(MustNotRun));
}

TEST_P(RunnerTest, UnknownUnderHoldNeedsResolution) {
  const auto unknown = [](const Attempt&) { return WorkResult::Unknown("", ""); };
  (void)Run(unknown, {}, OnLeaseExpiry::kHold);
  EXPECT_EQ(ResultAs<Error>(Run(MustNotRun)).kind, ErrorKind::kNeedsResolution);
}

TEST_P(RunnerTest, OtherRequestIsKeyReused) {
  (void)Run([](const Attempt&) { return Done(); });
  const auto error =
      ResultAs<Error>(runner_->RunOnce(key_, PaymentOf(7), OnLeaseExpiry::kTakeOver, MustNotRun));
  EXPECT_EQ(error.kind, ErrorKind::kKeyReused);
  EXPECT_FALSE(error.work.has_value());
}

TEST_P(RunnerTest, SecondCallMeanwhileIsInProgressOrWaits) {
  RunResult waited;
  std::thread waiter;
  (void)ResultAs<Completed>(Run([&](const Attempt&) {
    (void)ResultAs<InProgress>(Run(MustNotRun));
    waiter = std::thread([&] {
      RunOptions options;
      options.wait_timeout = std::chrono::seconds(30);
      waited = Run(MustNotRun, options);
    });
    return Done();
  }));
  waiter.join();
  (void)ResultAs<Replayed>(waited);
}

TEST_P(RunnerTest, SpansWithoutEndDoNotOverflow) {
  RunOptions options;
  options.wait_timeout = std::chrono::milliseconds::max();
  options.max_duration = std::chrono::milliseconds::max();
  options.start_timeout = std::chrono::milliseconds::max();
  RunResult waited;
  std::thread waiter;
  (void)ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        EXPECT_FALSE(attempt.stop.stop_requested());
        waiter = std::thread([&] { waited = Run(MustNotRun, options); });
        return Done();
      },
      options));
  waiter.join();
  (void)ResultAs<Replayed>(waited);
}

TEST_P(RunnerTest, CallThatIsCancelledBeforeTheWorkDoesNotRun) {
  std::stop_source source;
  source.request_stop();
  RunOptions options;
  options.cancel = source.get_token();
  EXPECT_EQ(ResultAs<Error>(Run(MustNotRun, options)).kind, ErrorKind::kCancelled);
}

TEST_P(RunnerTest, LookupShowsWhereTheKeyStands) {
  EXPECT_EQ(std::get<Error>(runner_->Lookup(key_)).kind, ErrorKind::kRecordNotFound);
  const auto state = [&] { return std::get<Record>(runner_->Lookup(key_)).state; };
  (void)Run([&](const Attempt&) {
    EXPECT_EQ(state(), RecordState::kInProgress);
    return WorkResult::NotApplied("", "");
  });
  EXPECT_EQ(state(), RecordState::kReleased);
  (void)Run([&](const Attempt&) { return WorkResult::Unknown("", ""); });
  EXPECT_EQ(state(), RecordState::kAbandoned);
  (void)Run([&](const Attempt&) { return Done(); });
  const auto record = std::get<Record>(runner_->Lookup(key_, true));
  EXPECT_EQ(record.state, RecordState::kCompleted);
  EXPECT_EQ(record.outcome->body, "paid");
  EXPECT_EQ(record.operation, "POST /payments");
  EXPECT_EQ(record.attempt_number, 3);
  EXPECT_EQ(record.unknown_attempts, 1);
  EXPECT_EQ(std::get<Record>(runner_->Lookup(key_)).outcome->body, std::nullopt);
}

struct BadCall {
  const char* field;
  std::function<void(Key*, Request*, OnLeaseExpiry*, RunOptions*, Work*)> spoil;
};

TEST_P(RunnerTest, MistakesThatNeedNoServiceAreNamed) {
  using std::chrono::milliseconds;
  const std::vector<BadCall> calls = {
      {"fn", [](auto*, auto*, auto*, auto*, Work* fn) { *fn = nullptr; }},
      {"on_lease_expiry", [](auto*, auto*, auto* action, auto*, auto*) { *action = {}; }},
      {"on_lease_expiry",
       [](auto*, auto*, auto* action, auto*, auto*) { *action = static_cast<OnLeaseExpiry>(3); }},
      {"merchant_id", [](Key* key, auto*, auto*, auto*, auto*) { key->merchant_id = ""; }},
      {"merchant_id", [](Key* key, auto*, auto*, auto*, auto*) { key->merchant_id = "\xFF"; }},
      {"idempotency_key", [](Key* key, auto*, auto*, auto*, auto*) { key->idempotency_key = ""; }},
      {"idempotency_key",
       [](Key* key, auto*, auto*, auto*, auto*) { key->idempotency_key = "\xFF"; }},
      {"parts[1]",
       [](Key* key, auto*, auto*, auto*, auto*) {
         *key = {"acme", "", std::nullopt, FieldViolation{"parts[1]", "must not be empty"}};
       }},
      {"operation",
       [](auto*, Request* request, auto*, auto*, auto*) { request->operation = "\xFF"; }},
      {"payload.content_type",
       [](auto*, Request* request, auto*, auto*, auto*) {
         request->content = Payload{"", "\xFF"};
       }},
      {"ttl",
       [](auto*, auto*, auto*, auto* options, auto*) { options->ttl = std::chrono::seconds(-1); }},
      {"ttl", [](Key* key, auto*, auto*, auto*, auto*) { key->ttl = std::chrono::seconds(-1); }},
      {"lease_duration", [](auto*, auto*, auto*, auto* options,
                            auto*) { options->lease_duration = milliseconds(-1); }},
      {"wait_timeout",
       [](auto*, auto*, auto*, auto* options, auto*) { options->wait_timeout = milliseconds(-1); }},
      {"max_duration",
       [](auto*, auto*, auto*, auto* options, auto*) { options->max_duration = milliseconds(0); }},
      {"start_timeout",
       [](auto*, auto*, auto*, auto* options, auto*) { options->start_timeout = milliseconds(0); }},
      {"labels",
       [](auto*, auto*, auto*, auto* options, auto*) { options->labels["order"] = "\xFF"; }},
      {"labels", [](auto*, auto*, auto*, auto* options, auto*) { options->labels["\xFF"] = ""; }},
      {"on_unavailable", [](auto*, auto*, auto*, auto* options,
                            auto*) { options->on_unavailable = static_cast<OnUnavailable>(2); }},
      {"on_unavailable",
       [](auto*, auto*, auto* action, auto* options, auto*) {
         *action = OnLeaseExpiry::kHold;
         options->on_unavailable = OnUnavailable::kRunUnprotected;
       }},
  };
  for (const BadCall& call : calls) {
    Key key = key_;
    Request request = PaymentOf();
    auto action = OnLeaseExpiry::kTakeOver;
    RunOptions options;
    Work fn = MustNotRun;
    call.spoil(&key, &request, &action, &options, &fn);
    const auto error = ResultAs<Error>(runner_->RunOnce(key, request, action, fn, options));
    EXPECT_EQ(error.kind, ErrorKind::kInvalidField) << call.field;
    EXPECT_THAT(FieldsOf(error), testing::ElementsAre(call.field));
    EXPECT_THAT(error.message, testing::StartsWith(std::string(call.field) + ": "));
  }
}

TEST_P(RunnerTest, AllMistakesAreNamedTogether) {
  RunOptions options;
  options.wait_timeout = std::chrono::milliseconds(-1);
  const auto error = ResultAs<Error>(Run(nullptr, options));
  EXPECT_THAT(FieldsOf(error), testing::UnorderedElementsAre("fn", "wait_timeout"));
}

class FakeRunnerTest : public testing::Test {
 protected:
  RunResult Run(const Work& fn) {
    return runner_.RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, fn);
  }

  FakeRunner runner_;
  const Key key_ = {"acme", "k"};
};

TEST_F(FakeRunnerTest, FailsTheNextStartOnly) {
  Error away;
  away.kind = ErrorKind::kUnavailable;
  runner_.FailNextStart(away);
  EXPECT_EQ(ResultAs<Error>(Run(MustNotRun)).kind, ErrorKind::kUnavailable);
  (void)ResultAs<Completed>(Run([](const Attempt&) { return Done(); }));
}

TEST_F(FakeRunnerTest, RunsUnprotectedWhereAClientWould) {
  RunOptions options;
  options.on_unavailable = OnUnavailable::kRunUnprotected;
  const auto run = [&](const char* reason) {
    Error away;
    away.kind = ErrorKind::kUnavailable;
    away.reason = reason;
    runner_.FailNextStart(away);
    return runner_.RunOnce(
        key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
        [](const Attempt& attempt) {
          EXPECT_TRUE(attempt.unprotected);
          EXPECT_EQ(attempt.attempt_number, 0);
          EXPECT_EQ(attempt.downstream_key, "");
          return Done();
        },
        options);
  };
  for (const char* reason : {"", "STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"}) {
    const auto unprotected = ResultAs<Unprotected>(run(reason));
    EXPECT_EQ(unprotected.work.outcome()->body, "paid");
    EXPECT_EQ(unprotected.error.reason, reason);
  }
  for (const char* reason : {"COMMIT_UNKNOWN", "SCHEMA_INCOMPATIBLE"}) {
    EXPECT_EQ(ResultAs<Error>(run(reason)).reason, reason);
  }
  EXPECT_EQ(runner_.unprotected_runs(), 4);
  // Nothing of it is recorded.
  EXPECT_EQ(std::get<Error>(runner_.Lookup(key_)).kind, ErrorKind::kRecordNotFound);
}

TEST_F(FakeRunnerTest, LosesTheNextRecordOnly) {
  runner_.LoseNextRecord();
  const auto error = ResultAs<Error>(Run([](const Attempt&) { return Done(); }));
  EXPECT_EQ(error.kind, ErrorKind::kOutcomeNotRecorded);
  EXPECT_EQ(error.work->outcome()->body, "paid");
  (void)ResultAs<Completed>(Run([](const Attempt& attempt) {
    EXPECT_EQ(attempt.unknown_attempts, 1);
    EXPECT_FALSE(attempt.previous_attempt->failure.has_value());
    return Done();
  }));
}

TEST_F(FakeRunnerTest, CrashedAttemptIsUnknown) {
  runner_.CrashAttempt(key_, PaymentOf(), OnLeaseExpiry::kTakeOver);
  (void)ResultAs<Completed>(Run([](const Attempt& attempt) {
    EXPECT_EQ(attempt.attempt_number, 2);
    EXPECT_EQ(attempt.unknown_attempts, 1);
    return Done();
  }));
}

}  // namespace
}  // namespace idempotency::client
