// Calls whose answers are lost, late, refused or nonsense.
#include <mutex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;

class RetryTest : public ClientTest {
 protected:
  // Counts its runs.
  RunResult Run(Runner& runner, const RunOptions& options = {}) {
    return runner.RunOnce(
        key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
        [this](const Attempt& attempt) {
          ++runs_;
          last_ = attempt;
          return Done();
        },
        options);
  }
  std::vector<std::string> AttemptIds(const std::string& method) {
    std::vector<std::string> ids;
    for (const auto& begin : proxy_.RequestsAs<v1::BeginRequest>(method)) {
      ids.push_back(begin.attempt_id());
    }
    return ids;
  }

  int runs_ = 0;
  Attempt last_;
};

TEST_F(RetryTest, BeginIsRepeatedWithItsAttemptIdAndTheWorkRunsOnce) {
  proxy_.Next("Begin", Refused());
  proxy_.Next("Begin", AnswerLost());
  proxy_.Next("Begin", RefusedBecause(StatusCode::UNAVAILABLE, "COMMIT_UNKNOWN"));
  const auto client = NewClient();
  const auto completed = ResultAs<Completed>(Run(*client));
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(completed.attempt_number, 1);
  EXPECT_TRUE(last_.repeated);
  EXPECT_EQ(last_.unknown_attempts, 0);
  const auto ids = AttemptIds("Begin");
  ASSERT_EQ(ids.size(), 4);
  EXPECT_THAT(ids, testing::Each(ids[0]));
}

TEST_F(RetryTest, BeginThatHangsIsTriedAgain) {
  proxy_.Next("Begin", Hanging());
  ClientOptions options;
  options.rpc_timeout = milliseconds(300);
  const auto client = NewClient(options);
  (void)ResultAs<Completed>(Run(*client));
  EXPECT_GE(proxy_.Count("Begin"), 2);
}

TEST_F(RetryTest, RateLimitedBeginIsRepeatedAfterWhatTheServiceAsks) {
  proxy_.Next("Begin", RefusedBecause(StatusCode::RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED", 40));
  proxy_.Next("Begin",
              WithPushback(RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED", 90'000), "30"));
  std::vector<std::optional<milliseconds>> asked;
  ClientOptions options = QuickOptions();
  options.hooks.on_retry = [&](const char* rpc, const Error& error) {
    if (std::string(rpc) == "Begin") asked.push_back(error.retry_after);
  };
  const auto client = NewClient(options);
  (void)ResultAs<Completed>(Run(*client));
  // The trailer counts before RetryInfo.
  EXPECT_THAT(asked, testing::ElementsAre(milliseconds(40), milliseconds(30)));
}

TEST_F(RetryTest, RateLimitThatOutlastsTheStartIsItsOwnError) {
  proxy_.Always("Begin",
                RefusedBecause(StatusCode::RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED", 2000));
  RunOptions options;
  options.start_timeout = milliseconds(500);
  const auto client = NewClient();
  const auto error = ResultAs<Error>(Run(*client, options));
  EXPECT_EQ(error.kind, ErrorKind::kRateLimited);
  EXPECT_EQ(error.retry_after, milliseconds(2000));
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(proxy_.Count("Begin"), 1);
  EXPECT_EQ(proxy_.Count("Fail"), 0);
}

TEST_F(RetryTest, NegativePushbackEndsTheRepeats) {
  proxy_.Next("Begin", WithPushback(RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED"), "-1"));
  const auto client = NewClient();
  const auto error = ResultAs<Error>(Run(*client));
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_EQ(error.reason, "OVERLOADED");
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

TEST_F(RetryTest, NegativePushbackEndsTheRepeatWithFreshCredentials) {
  ClientOptions options = QuickOptions();
  options.hooks.refresh_credentials = [] { ADD_FAILURE() << "refreshed"; };
  proxy_.Next(
      "Begin",
      WithPushback(RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID"), "-1"));
  const auto client = NewClient(options);
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kUnauthenticated);
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

// What it means is not known, so the service may have started the attempt.
TEST_F(RetryTest, BeginRefusedForANewReasonFreesTheKey) {
  proxy_.Next("Begin", RefusedBecause(StatusCode::INTERNAL, "NEWER_THAN_THIS_CLIENT"));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).reason, "NEWER_THAN_THIS_CLIENT");
  EXPECT_TRUE(Eventually([&] { return proxy_.Count("Fail") >= 1; }));
}

TEST_F(RetryTest, TryWithoutEndDoesNotOverflowWithAWait) {
  ClientOptions endless;
  endless.rpc_timeout = milliseconds::max();
  const auto client = NewClient(endless);
  RunOptions options;
  options.wait_timeout = std::chrono::seconds(1);
  (void)ResultAs<Completed>(Run(*client, options));
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

TEST_F(RetryTest, WaitIsNoBusyLoopWhereTheServiceNamesNoPause) {
  v1::BeginResponse busy;
  busy.mutable_in_progress();
  proxy_.Always("Begin", Answering(busy.SerializeAsString()));
  const auto client = NewClient();
  RunOptions options;
  options.wait_timeout = milliseconds(300);
  (void)ResultAs<InProgress>(Run(*client, options));
  // At most each 10 ms, on the fastest machine.
  EXPECT_LE(proxy_.Count("Begin"), 31);
}

TEST_F(RetryTest, UnauthenticatedIsRepeatedOnceWithFreshCredentials) {
  int refreshed = 0;
  ClientOptions options = QuickOptions();
  options.hooks.refresh_credentials = [&] { ++refreshed; };
  proxy_.Next("Begin", RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID"));
  proxy_.Next("Complete", RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID"));
  const auto client = NewClient(options);
  (void)ResultAs<Completed>(Run(*client));
  EXPECT_EQ(refreshed, 2);

  proxy_.Always("Begin", RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID"));
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kUnauthenticated);
  EXPECT_EQ(refreshed, 3);
  EXPECT_EQ(runs_, 1);
}

TEST_F(RetryTest, ForbiddenIsNotRepeated) {
  proxy_.Always("Begin", RefusedBecause(StatusCode::PERMISSION_DENIED, "MERCHANT_FORBIDDEN"));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kPermissionDenied);
  EXPECT_EQ(proxy_.Count("Begin"), 1);
}

// Whether the attempt was started is not known, so the key is given back.
TEST_F(RetryTest, AnswerThatIsNoMessageRunsNothingAndFreesTheKey) {
  proxy_.Next("Begin", AnsweringAfter("\xFF\xFF\xFF"));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kInternal);
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
}

TEST_F(RetryTest, AnswerWithoutAResultRunsNothingAndFreesTheKey) {
  proxy_.Next("Begin", AnsweringAfter(""));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kInternal);
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
}

TEST_F(RetryTest, StartOfAnotherAttemptRunsNothing) {
  v1::BeginResponse other;
  other.mutable_started()->set_attempt_id("somebody else's attempt");
  other.mutable_started()->mutable_lease_remaining()->set_seconds(60);
  proxy_.Next("Begin", AnsweringAfter(other.SerializeAsString()));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kInternal);
  EXPECT_EQ(runs_, 0);
}

TEST_F(RetryTest, ReplayWithoutAnAnswerIsAnError) {
  v1::BeginResponse empty;
  empty.mutable_replay();
  proxy_.Next("Begin", Answering(empty.SerializeAsString()));
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kInternal);
  EXPECT_EQ(runs_, 0);
}

TEST_F(RetryTest, CompleteIsRepeatedWithIdenticalBytesUntilItIsKnown) {
  proxy_.Next("Complete", Refused());
  proxy_.Next("Complete", AnswerLost());
  proxy_.Next("Complete", Refused(StatusCode::INTERNAL));
  proxy_.Next("Complete", Refused(StatusCode::UNKNOWN));
  proxy_.Next("Complete", Refused(StatusCode::CANCELLED));
  proxy_.Next("Complete", Answering("\xFF\xFF\xFF"));
  // Not to be obeyed here: the outcome must be recorded.
  proxy_.Next("Complete", WithPushback(Refused(), "-1"));
  const auto client = NewClient();
  (void)ResultAs<Completed>(Run(*client));
  const auto requests = proxy_.Requests("Complete");
  ASSERT_EQ(requests.size(), 8);
  EXPECT_THAT(requests, testing::Each(requests[0]));
  EXPECT_TRUE(IsState(v1::RECORD_STATE_COMPLETED));
  EXPECT_EQ(runs_, 1);
}

TEST_F(RetryTest, CompleteThatHangsIsTriedAgain) {
  proxy_.Next("Complete", HangingAfter());
  ClientOptions options;
  options.rpc_timeout = milliseconds(500);
  const auto client = NewClient(options);
  (void)ResultAs<Completed>(Run(*client));
  EXPECT_GE(proxy_.Count("Complete"), 2);
}

TEST_F(RetryTest, FailIsRepeatedWithIdenticalBytesUntilItIsKnown) {
  proxy_.Next("Fail", AnswerLost());
  proxy_.Next("Fail", AnswerLost());
  const auto client = NewClient();
  (void)ResultAs<Failed>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
                      [](const Attempt&) { return WorkResult::FinalFailure("NO", "no"); }));
  const auto requests = proxy_.Requests("Fail");
  ASSERT_EQ(requests.size(), 3);
  EXPECT_THAT(requests, testing::Each(requests[0]));
}

struct Permanent {
  StatusCode code;
  const char* reason;
  ErrorKind kind;
};

class PermanentRefusal : public RetryTest, public testing::WithParamInterface<Permanent> {};

TEST_P(PermanentRefusal, OfACompleteIsTypedAndCarriesTheOutcome) {
  std::mutex mu;
  std::vector<ErrorKind> reported;
  ClientOptions options = QuickOptions();
  options.hooks.on_outcome_not_recorded = [&](const Key& key, const WorkResult& work,
                                              const Error& error) {
    const std::lock_guard lock(mu);
    EXPECT_EQ(key.idempotency_key, key_.idempotency_key);
    EXPECT_EQ(work.outcome()->body, "paid");
    reported.push_back(error.kind);
    throw std::runtime_error("a hook must cost nothing");
  };
  proxy_.Always("Complete", RefusedBecause(GetParam().code, GetParam().reason));
  const auto client = NewClient(options);
  const auto error = ResultAs<Error>(Run(*client));
  EXPECT_EQ(error.kind, GetParam().kind);
  EXPECT_EQ(error.reason, GetParam().reason);
  EXPECT_EQ(error.work->outcome()->body, "paid");
  EXPECT_FALSE(error.still_recording);
  EXPECT_EQ(proxy_.Count("Complete"), 1);
  EXPECT_THAT(reported, testing::ElementsAre(GetParam().kind));
}

INSTANTIATE_TEST_SUITE_P(
    Codes, PermanentRefusal,
    testing::Values(
        Permanent{StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", ErrorKind::kInvalidField},
        Permanent{StatusCode::FAILED_PRECONDITION, "OUTCOME_CONFLICT", ErrorKind::kOutcomeConflict},
        Permanent{StatusCode::ABORTED, "LEASE_LOST", ErrorKind::kLeaseLost},
        Permanent{StatusCode::NOT_FOUND, "RECORD_NOT_FOUND", ErrorKind::kRecordNotFound},
        Permanent{StatusCode::PERMISSION_DENIED, "MERCHANT_FORBIDDEN",
                  ErrorKind::kPermissionDenied}),
    [](const auto& each) { return std::string(each.param.reason); });

TEST_F(RetryTest, ExhaustedOnCompleteIsSizeAndRepeatedOnceWithoutTheBody) {
  proxy_.Always("Complete", Refused(StatusCode::RESOURCE_EXHAUSTED));
  const auto client = NewClient();
  const auto error = ResultAs<Error>(Run(*client));
  EXPECT_EQ(error.kind, ErrorKind::kRequestTooLarge);
  const auto requests = proxy_.RequestsAs<v1::CompleteRequest>("Complete");
  ASSERT_EQ(requests.size(), 2);
  EXPECT_TRUE(requests[1].outcome().body_omitted());
  EXPECT_EQ(requests[1].outcome().body_size(), 4);
  EXPECT_EQ(requests[1].attempt_id(), requests[0].attempt_id());
}

TEST_F(RetryTest, OutcomeIsNotRecordedWhenTheBudgetIsOver) {
  std::mutex mu;
  int reported = 0;
  ClientOptions options = QuickOptions();
  options.record_timeout = milliseconds(400);
  options.hooks.on_outcome_not_recorded = [&](const Key&, const WorkResult&, const Error& error) {
    const std::lock_guard lock(mu);
    ++reported;
    EXPECT_EQ(error.kind, ErrorKind::kOutcomeNotRecorded);
    EXPECT_TRUE(error.work.has_value());
  };
  proxy_.Always("Complete", Refused());
  const auto client = NewClient(options);
  const auto error = ResultAs<Error>(Run(*client));
  EXPECT_EQ(error.kind, ErrorKind::kOutcomeNotRecorded);
  EXPECT_EQ(error.work->outcome()->response_id, "pay-1");
  EXPECT_FALSE(error.still_recording);
  EXPECT_EQ(reported, 1);
  EXPECT_GE(proxy_.Count("Complete"), 2);
}

TEST_F(RetryTest, ServiceThatIsAwayRunsNothing) {
  ClientOptions quick = QuickOptions();
  // What the first try came to is not known, so its release is still tried when the client ends.
  quick.shutdown_timeout = milliseconds(50);
  Client client(ChannelsTo("unix:/nonexistent/idempotencyd"), quick);
  RunOptions options;
  options.start_timeout = milliseconds(400);
  const auto error = ResultAs<Error>(Run(client, options));
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(error.work.has_value());
  EXPECT_EQ(runs_, 0);
}

TEST_F(RetryTest, ServiceThatIsSilentRunsNothingAndTheCallEnds) {
  proxy_.Always("Begin", Hanging());
  RunOptions options;
  options.start_timeout = milliseconds(400);
  const auto client = NewClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client, options)).kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(runs_, 0);
}

// Of calls that were never sent nothing is left behind in the background.
TEST_F(RetryTest, ServiceThatIsKnownToBeAwayLeavesNothingToRelease) {
  std::mutex mu;
  int failed_releases = 0;
  ClientOptions quick = QuickOptions();
  quick.shutdown_timeout = milliseconds(50);
  quick.hooks.on_retry = [&](const char* rpc, const Error&) {
    const std::lock_guard lock(mu);
    if (std::string(rpc) == "Fail") ++failed_releases;
  };
  const Channels channels = ChannelsTo("unix:/nonexistent/idempotencyd");
  ASSERT_TRUE(Eventually([&] {
    return channels.calls->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_TRANSIENT_FAILURE;
  }));
  {
    Client client(channels, quick);
    RunOptions options;
    options.start_timeout = milliseconds(300);
    EXPECT_EQ(ResultAs<Error>(Run(client, options)).kind, ErrorKind::kUnavailable);
  }
  EXPECT_EQ(failed_releases, 0);
}

TEST_F(RetryTest, LookupIsRepeated) {
  const auto client = NewClient();
  (void)Run(*client);
  proxy_.Next("Lookup", Refused());
  EXPECT_EQ(std::get<Record>(client->Lookup(key_)).state, RecordState::kCompleted);
}

// The record is held, its attempt's lease over, and nobody but the attempt knows that nothing was
// done under it.
TEST_F(RetryTest, BeginRefusedAfterALostAnswerSaysThatNothingWasDone) {
  proxy_.Next("Begin", WithPushback(AnswerLost(), "500"));
  RunOptions options;
  options.lease_duration = milliseconds(100);
  const auto client = NewClient();
  const auto error = ResultAs<Error>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kHold, MustNotRun, options));
  EXPECT_EQ(error.kind, ErrorKind::kNeedsResolution);
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
  EXPECT_EQ(Lookup().unknown_attempts(), 0);
}

// By then its lease is over, or nearly: it is renewed before the work, or resumed by the service.
TEST_F(RetryTest, BeginWhoseAnswerCameTooLateIsMadeGoodBeforeTheWork) {
  proxy_.Next("Begin", WithPushback(AnswerLost(), "3200"));
  RunOptions options;
  options.lease_duration = milliseconds(3000);
  const auto client = NewClient();
  const auto completed = ResultAs<Completed>(Run(*client, options));
  EXPECT_EQ(completed.attempt_number, 1);
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace idempotency::client
