// What application code may rely on, whichever Runner it is given: the fake answers as the service.
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

#include "gtest/gtest.h"
#include "idempotency/client/fake_runner.h"
#include "tests/client_cpp/client_fixture.h"

namespace idempotency {
namespace {

using client::Attempt;
using client::Completed;
using client::Error;
using client::ErrorKind;
using client::Failed;
using client::FailureDisposition;
using client::InProgress;
using client::OnLeaseExpiry;
using client::Outcome;
using client::Replayed;
using client::RunOptions;
using client::WorkResult;

using NewRunner = std::function<std::unique_ptr<client::Runner>()>;

class RunnerTest : public testing::TestWithParam<NewRunner> {
 protected:
  client::RunResult Run(const client::Work& fn, const RunOptions& options = {},
                        OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver) {
    return runner_->RunOnce(key_, PaymentOf(), on_lease_expiry, fn, options);
  }
  static WorkResult MustNotRun(const Attempt&) {
    ADD_FAILURE() << "the work ran";
    return WorkResult::Unknown("", "");
  }

  const std::unique_ptr<client::Runner> runner_ = GetParam()();
  const client::Key key_ = NewKey();
};

INSTANTIATE_TEST_SUITE_P(
    Runners, RunnerTest,
    testing::Values(NewRunner([] { return std::make_unique<client::FakeRunner>(); }), NewRunner([] {
                      return std::make_unique<client::Client>(
                          ChannelsTo(SharedService().address(0)), QuickOptions());
                    })),
    [](const auto& each) { return each.index == 0 ? "Fake" : "Client"; });

TEST_P(RunnerTest, CompletesThenReplays) {
  const auto completed = ResultAs<Completed>(Run([](const Attempt& attempt) {
    EXPECT_EQ(attempt.attempt_number, 1);
    EXPECT_EQ(attempt.unknown_attempts, 0);
    EXPECT_FALSE(attempt.previous_attempt.has_value());
    EXPECT_EQ(attempt.downstream_key.size(), 36);
    EXPECT_FALSE(attempt.stop.stop_requested());
    EXPECT_EQ(attempt.stop_reason(), client::StopReason::kNone);
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
  EXPECT_EQ(std::get<client::Failure>(replayed.answer).code, "DECLINED");
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
  client::RunResult waited;
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

TEST_P(RunnerTest, CallThatIsCancelledBeforeTheWorkDoesNotRun) {
  std::stop_source source;
  source.request_stop();
  RunOptions options;
  options.cancel = source.get_token();
  EXPECT_EQ(ResultAs<Error>(Run(MustNotRun, options)).kind, ErrorKind::kCancelled);
}

TEST_P(RunnerTest, LookupShowsWhereTheKeyStands) {
  EXPECT_EQ(std::get<Error>(runner_->Lookup(key_)).kind, ErrorKind::kRecordNotFound);
  const auto state = [&] { return std::get<client::Record>(runner_->Lookup(key_)).state; };
  (void)Run([&](const Attempt&) {
    EXPECT_EQ(state(), client::RecordState::kInProgress);
    return WorkResult::NotApplied("", "");
  });
  EXPECT_EQ(state(), client::RecordState::kReleased);
  (void)Run([&](const Attempt&) { return WorkResult::Unknown("", ""); });
  EXPECT_EQ(state(), client::RecordState::kAbandoned);
  (void)Run([&](const Attempt&) { return Done(); });
  const auto record = std::get<client::Record>(runner_->Lookup(key_, true));
  EXPECT_EQ(record.state, client::RecordState::kCompleted);
  EXPECT_EQ(record.outcome->body, "paid");
  EXPECT_EQ(record.operation, "POST /payments");
  EXPECT_EQ(record.attempt_number, 3);
  EXPECT_EQ(record.unknown_attempts, 1);
  EXPECT_EQ(std::get<client::Record>(runner_->Lookup(key_)).outcome->body, std::nullopt);
}

class FakeRunnerTest : public testing::Test {
 protected:
  client::RunResult Run(const client::Work& fn) {
    return runner_.RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, fn);
  }

  client::FakeRunner runner_;
  const client::Key key_ = {"acme", "k"};
};

TEST_F(FakeRunnerTest, FailsTheNextStartOnly) {
  Error away;
  away.kind = ErrorKind::kUnavailable;
  runner_.FailNextStart(away);
  EXPECT_EQ(ResultAs<Error>(Run([](const Attempt&) {
              ADD_FAILURE() << "the work ran";
              return Done();
            })).kind,
            ErrorKind::kUnavailable);
  (void)ResultAs<Completed>(Run([](const Attempt&) { return Done(); }));
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
}  // namespace idempotency
