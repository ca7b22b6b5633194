// A caller that gives up: before the work, in it, and after it.
#include <mutex>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class CancelTest : public ClientTest {
 protected:
  RunResult Run(Client& client, const Work& fn) {
    RunOptions options;
    options.cancel = source_.get_token();
    return client.RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, fn, options);
  }

  std::stop_source source_;
};

TEST_F(CancelTest, BeforeTheCallNothingIsSent) {
  source_.request_stop();
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client, MustNotRun)).kind, ErrorKind::kCancelled);
  EXPECT_EQ(proxy_.Count("Begin"), 0);
  EXPECT_EQ(proxy_.Count("Fail"), 0);
}

TEST_F(CancelTest, WhileTheAnswerIsUnderWayTheKeyIsGivenBack) {
  proxy_.Next("Begin", HangingAfter());
  const auto client = NewClient();
  std::thread canceller([&] {
    EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_IN_PROGRESS); }));
    source_.request_stop();
  });
  const auto error = ResultAs<Error>(Run(*client, MustNotRun));
  canceller.join();
  EXPECT_EQ(error.kind, ErrorKind::kCancelled);
  EXPECT_FALSE(error.work.has_value());
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
  EXPECT_EQ(proxy_.Count("Fail"), 1);
}

TEST_F(CancelTest, WhileItWaitsForTheNextTryNothingMoreIsSent) {
  proxy_.Always(
      "Begin",
      WithPushback(RefusedBecause(grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE"), "20000"));
  ClientOptions options = QuickOptions();
  options.hooks.on_retry = [&](const char*, const Error&) { source_.request_stop(); };
  const auto client = NewClient(options);
  EXPECT_EQ(ResultAs<Error>(Run(*client, MustNotRun)).kind, ErrorKind::kCancelled);
  EXPECT_EQ(proxy_.Count("Begin"), 1);
  // The service said that it had done nothing.
  EXPECT_EQ(proxy_.Count("Fail"), 0);
}

TEST_F(CancelTest, DeadlineBeforeTheWorkGivesTheKeyBack) {
  proxy_.Always("Begin", HangingAfter());
  const auto client = NewClient();
  RunOptions options;
  options.deadline = steady_clock::now() + std::chrono::seconds(3);
  const auto error = ResultAs<Error>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun, options));
  EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
}

TEST_F(CancelTest, DeadlineThatHasPassedSendsNothing) {
  const auto client = NewClient();
  RunOptions options;
  options.deadline = steady_clock::time_point::min();
  const auto error = ResultAs<Error>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun, options));
  EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(proxy_.Count("Begin"), 0);
}

TEST_F(CancelTest, InTheWorkItIsAskedToStopAndWhatItThrowsIsUnknown) {
  const auto client = NewClient();
  const auto failed = ResultAs<Failed>(Run(*client, [&](const Attempt& attempt) -> WorkResult {
    source_.request_stop();
    EXPECT_TRUE(attempt.stop.stop_requested());
    EXPECT_EQ(attempt.stop_reason(), StopReason::kCancelled);
    throw std::runtime_error("cancelled");
  }));
  EXPECT_EQ(failed.failure.disposition, FailureDisposition::kUnknown);
  EXPECT_TRUE(IsState(v1::RECORD_STATE_ABANDONED));
}

TEST_F(CancelTest, InTheWorkAnOutcomeIsStillRecorded) {
  const auto client = NewClient();
  (void)ResultAs<Completed>(Run(*client, [&](const Attempt&) {
    source_.request_stop();
    return Done();
  }));
  EXPECT_TRUE(IsState(v1::RECORD_STATE_COMPLETED));
}

TEST_F(CancelTest, DeadlineInTheWorkAsksItToStop) {
  const auto client = NewClient();
  RunOptions options;
  options.deadline = steady_clock::now() + std::chrono::seconds(3);
  const auto work = [&](const Attempt& attempt) {
    AwaitStop(attempt);
    EXPECT_EQ(attempt.stop_reason(), StopReason::kDeadline);
    return Done();
  };
  (void)ResultAs<Completed>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, work, options));
}

TEST_F(CancelTest, AfterTheWorkItsOutcomeIsRecordedInTheBackground) {
  proxy_.Always("Complete", Refused());
  const auto client = NewClient();
  const auto error = ResultAs<Error>(Run(*client, [&](const Attempt&) {
    source_.request_stop();
    return Done();
  }));
  EXPECT_EQ(error.kind, ErrorKind::kOutcomeNotRecorded);
  EXPECT_TRUE(error.still_recording);
  EXPECT_EQ(error.work->outcome()->body, "paid");
  proxy_.Always("Complete", std::nullopt);
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_COMPLETED); }));
  const auto requests = proxy_.Requests("Complete");
  EXPECT_THAT(requests, testing::Each(requests[0]));
}

TEST_F(CancelTest, DestructorWaitsForWhatIsRecordedInTheBackground) {
  proxy_.Always("Complete", Refused());
  ClientOptions options = QuickOptions();
  options.shutdown_timeout = std::chrono::minutes(1);
  auto client = NewClient(options);
  (void)ResultAs<Error>(Run(*client, [&](const Attempt&) {
    source_.request_stop();
    return Done();
  }));
  std::thread destroyer([&] { client.reset(); });
  proxy_.Always("Complete", std::nullopt);
  destroyer.join();
  EXPECT_TRUE(IsState(v1::RECORD_STATE_COMPLETED));
}

TEST_F(CancelTest, DestructorReportsWhatItGivesUp) {
  proxy_.Always("Complete", Hanging());
  std::mutex mu;
  std::vector<std::string> reported;
  ClientOptions options = QuickOptions();
  options.shutdown_timeout = milliseconds(50);
  options.hooks.on_outcome_not_recorded = [&](const Key& key, const WorkResult& work,
                                              const Error& error) {
    const std::lock_guard lock(mu);
    EXPECT_EQ(error.kind, ErrorKind::kOutcomeNotRecorded);
    EXPECT_EQ(work.outcome()->body, "paid");
    reported.push_back(key.idempotency_key);
  };
  auto client = NewClient(options);
  EXPECT_TRUE(ResultAs<Error>(Run(*client, [&](const Attempt&) {
                source_.request_stop();
                return Done();
              })).still_recording);
  EXPECT_TRUE(reported.empty());
  client.reset();
  EXPECT_THAT(reported, testing::ElementsAre(key_.idempotency_key));
}

// A channel that one of gRPC's own threads lets go of last brings the process down.
TEST_F(CancelTest, DestructorLeavesTheChannelsToNobodyElse) {
  const Channels channels = ChannelsTo(proxy_.address());
  proxy_.Always("Complete", Hanging());
  proxy_.Always("Renew", Hanging());
  ClientOptions options = QuickOptions();
  options.shutdown_timeout = milliseconds(0);
  auto client = std::make_unique<Client>(channels, options);
  RunOptions run;
  run.cancel = source_.get_token();
  run.lease_duration = milliseconds(300);
  const auto work = [&](const Attempt&) {
    EXPECT_TRUE(Eventually([&] { return proxy_.Count("Renew") > 0; }));
    source_.request_stop();
    return Done();
  };
  const auto error =
      ResultAs<Error>(client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, work, run));
  EXPECT_TRUE(error.still_recording);
  client.reset();
  EXPECT_EQ(channels.calls.use_count(), 1);
  EXPECT_EQ(channels.waits.use_count(), 1);
}

TEST_F(CancelTest, AttemptThatIsKeptOutlivesItsClient) {
  auto client = NewClient();
  Attempt kept;
  (void)Run(*client, [&](const Attempt& attempt) {
    kept = attempt;
    return Done();
  });
  client.reset();
  EXPECT_EQ(kept.stop_reason(), StopReason::kNone);
  EXPECT_GT(kept.lease_remaining().count(), 0);
}

TEST_F(CancelTest, GivingUpLeavesTheKeyToItsLeaseWhenTooMuchIsUnderWay) {
  proxy_.Always("Begin", HangingAfter());
  ClientOptions options = QuickOptions();
  options.max_background_records = 0;
  const auto client = NewClient(options);
  std::thread canceller([&] {
    EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_IN_PROGRESS); }));
    source_.request_stop();
  });
  (void)ResultAs<Error>(Run(*client, MustNotRun));
  canceller.join();
  EXPECT_EQ(proxy_.Count("Fail"), 0);
}

}  // namespace
}  // namespace idempotency::client
