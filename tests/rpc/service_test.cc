// What the service does with good calls: terms, translation, faults, cancellation.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/clock.h"
#include "server/record/fault.h"
#include "server/record/fingerprint.h"
#include "tests/rpc/error_details.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServiceTest : public ServiceFixture {
 protected:
  // The status of a Begin that the engine answers with `result`.
  grpc::Status BeginAnswered(absl::StatusOr<BeginResult> result,
                             grpc::ClientContext* context = nullptr) {
    v1::BeginResponse response;
    return BeginWhile(
        SampleBegin(), &response, [&] { std::move(engine_.TakeBegin().done)(std::move(result)); },
        context);
  }
};

TEST_F(ServiceTest, BeginAnswersStarted) {
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(SampleBegin(), &response, [this] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    EXPECT_EQ(call.item.key, (RecordKey{"acme", "order-1"}));
    std::move(call.done)(StartedResult(call.item));
  });
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.started().attempt_id(), kSampleAttempt);
}

// Both members of the oneof are on the wire; parsers keep the last one (docs/adr/0004).
TEST_F(ServiceTest, OfFingerprintAndPayloadTheLastOnTheWireCounts) {
  v1::BeginRequest both = SampleBegin();
  both.clear_fingerprint();
  v1::BeginRequest fingerprint;
  fingerprint.set_fingerprint(std::string(32, 'f'));
  v1::BeginRequest payload;
  payload.mutable_payload()->set_data("body");
  const auto asked_by = [&](const std::string& bytes) {
    grpc::Status status;
    std::thread caller([&] { status = CallRaw("Begin", bytes); });
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::move(call.done)(StartedResult(call.item));
    caller.join();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return call.item;
  };
  const std::string rest = both.SerializeAsString();
  const std::string first = fingerprint.SerializeAsString();
  const std::string second = payload.SerializeAsString();
  const BeginItem hashed = asked_by(absl::StrCat(rest, first, second));
  EXPECT_EQ(hashed.fingerprint, *FingerprintOf("", "body"));
  EXPECT_EQ(hashed.fingerprint_scheme, 1);
  const BeginItem given = asked_by(absl::StrCat(rest, second, first));
  EXPECT_EQ(std::string(given.fingerprint.begin(), given.fingerprint.end()), std::string(32, 'f'));
  EXPECT_EQ(given.fingerprint_scheme, 0);
}

TEST_F(ServiceTest, BeginReturnsTheAttemptIdItMade) {
  v1::BeginRequest request = SampleBegin();
  request.clear_attempt_id();
  AttemptHash asked;
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(request, &response, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    asked = call.item.attempt;
    std::move(call.done)(StartedResult(call.item));
  });
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(HashAttemptId(response.started().attempt_id()), asked);
}

TEST_F(ServiceTest, BeginRefusesAKeyReused) {
  BeginItem item;
  item.key = {"acme", "order-1"};
  BeginResult result = StartedResult(item);
  result.verdict = BeginVerdict::kKeyReused;
  const grpc::Status status = BeginAnswered(result);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "KEY_REUSED");
  EXPECT_THAT(StopLog(), HasSubstr("\"event\":\"key_reused\""));
}

TEST_F(ServiceTest, CompleteAnswersRecorded) {
  grpc::ClientContext context;
  v1::CompleteResponse response;
  grpc::Status status;
  std::thread caller([&] { status = stub_->Complete(&context, SampleComplete(), &response); });
  FakeEngine::OwnerCall call = engine_.TakeOwner();
  EXPECT_FALSE(call.item.IsRenew());
  OwnerResult result;
  result.verdict = OwnerVerdict::kRecorded;
  Record record;
  record.key = call.item.key;
  record.created_at = record.started_at = absl::FromUnixSeconds(1'767'225'600);
  record.finished_at = absl::FromUnixSeconds(1'767'225'601);
  result.record = std::make_shared<const Record>(record);
  std::move(call.done)(result);
  caller.join();
  ASSERT_TRUE(status.ok());
  EXPECT_FALSE(response.already_recorded());
  EXPECT_EQ(response.finish_time().seconds(), 1'767'225'601);
}

TEST_F(ServiceTest, FailHandsTheDispositionOn) {
  grpc::ClientContext context;
  v1::FailResponse response;
  grpc::Status status;
  std::thread caller([&] { status = stub_->Fail(&context, SampleFail(), &response); });
  FakeEngine::OwnerCall call = engine_.TakeOwner();
  EXPECT_EQ(std::get<Failure>(*call.item.answer).disposition, Disposition::kFinal);
  OwnerResult result;
  result.verdict = OwnerVerdict::kLeaseLost;
  std::move(call.done)(result);
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status), "LEASE_LOST");
}

TEST_F(ServiceTest, RenewAsksForALease) {
  grpc::ClientContext context;
  v1::RenewResponse response;
  grpc::Status status;
  std::thread caller([&] { status = stub_->Renew(&context, SampleRenew(), &response); });
  FakeEngine::OwnerCall call = engine_.TakeOwner();
  EXPECT_TRUE(call.item.IsRenew());
  OwnerResult result;
  result.verdict = OwnerVerdict::kAlreadyFinished;
  std::move(call.done)(result);
  caller.join();
  EXPECT_EQ(ReasonOf(status), "ALREADY_FINISHED");
}

TEST_F(ServiceTest, LookupOfNothingIsNotFound) {
  grpc::ClientContext context;
  v1::LookupResponse response;
  grpc::Status status;
  std::thread caller([&] { status = stub_->Lookup(&context, SampleLookup(), &response); });
  std::move(engine_.TakeLookup().done)(LookupResult());
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "RECORD_NOT_FOUND");
}

TEST_F(ServiceTest, AnOverloadedServerSaysWhenToComeBack) {
  grpc::ClientContext context;
  const grpc::Status status = BeginAnswered(MakeFault(Fault::kOverloaded, "full"), &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "OVERLOADED");
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry.has_value());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailers.end());
  EXPECT_EQ(std::string(pushback->second.data(), pushback->second.size()),
            absl::StrCat(retry->retry_delay().nanos() / 1'000'000));
}

TEST_F(ServiceTest, AnInternalFaultTellsItsIdAndNothingElse) {
  const grpc::Status status =
      BeginAnswered(MakeFault(Fault::kInternal, "relation idempotency_record is gone"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ReasonOf(status), "INTERNAL");
  EXPECT_THAT(status.error_message(), Not(HasSubstr("relation")));
  const std::string request_id =
      status.error_message().substr(status.error_message().rfind(' ') + 1);
  EXPECT_EQ(request_id.size(), 36u);
  const std::string log = StopLog();
  EXPECT_THAT(log, HasSubstr(request_id));
  EXPECT_THAT(log, HasSubstr("relation idempotency_record is gone"));
}

TEST_F(ServiceTest, ACallWithoutADeadlineHasThirtySeconds) {
  v1::BeginResponse response;
  absl::Duration left;
  const absl::Duration before = SystemClock()->BootTime();
  (void)BeginWhile(SampleBegin(), &response, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    left = call.terms.deadline - before;
    EXPECT_LE(call.terms.deadline - SystemClock()->BootTime(), absl::Seconds(30));
    std::move(call.done)(StartedResult(call.item));
  });
  EXPECT_GE(left, absl::Seconds(30));
}

TEST_F(ServiceTest, ADeadlineIsHandedOn) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::hours(1));
  v1::BeginResponse response;
  (void)BeginWhile(
      SampleBegin(), &response,
      [&] {
        FakeEngine::BeginCall call = engine_.TakeBegin();
        const absl::Duration left = call.terms.deadline - SystemClock()->BootTime();
        EXPECT_GT(left, absl::Minutes(30));
        EXPECT_LE(left, absl::Hours(1) + absl::Seconds(1));
        std::move(call.done)(StartedResult(call.item));
      },
      &context);
}

TEST_F(ServiceTest, AWaitIsHandedOn) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_wait_timeout()->set_seconds(7);
  v1::BeginResponse response;
  (void)BeginWhile(request, &response, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    EXPECT_EQ(call.terms.wait, absl::Seconds(7));
    std::move(call.done)(StartedResult(call.item));
  });
}

TEST_F(ServiceTest, ACancelledCallIsAnsweredOnceAllTheSame) {
  grpc::ClientContext context;
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(
      SampleBegin(), &response,
      [&] {
        FakeEngine::BeginCall call = engine_.TakeBegin();
        EXPECT_FALSE(call.terms.caller_left->load());
        context.TryCancel();
        EXPECT_TRUE(Eventually([&] { return call.terms.caller_left->load(); }));
        std::move(call.done)(StartedResult(call.item));
      },
      &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  ExpectUnharmed();
}

TEST_F(ServiceTest, ADroppedCallIsAnsweredAsCancelled) {
  grpc::ClientContext context;
  v1::BeginResponse response;
  (void)BeginWhile(
      SampleBegin(), &response,
      [&] {
        FakeEngine::BeginCall call = engine_.TakeBegin();
        context.TryCancel();
        EXPECT_TRUE(Eventually([&] { return call.terms.caller_left->load(); }));
        std::move(call.done)(MakeFault(Fault::kCancelled, "left"));
      },
      &context);
  ExpectUnharmed();
}

TEST_F(ServiceTest, ACompleteWhoseCallerLeftStaysWithTheEngine) {
  grpc::ClientContext context;
  v1::CompleteResponse response;
  grpc::Status status;
  std::thread caller([&] { status = stub_->Complete(&context, SampleComplete(), &response); });
  FakeEngine::OwnerCall call = engine_.TakeOwner();
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return call.terms.caller_left->load(); }));
  // The work goes on: the engine has the call, and answers whoever is left.
  OwnerResult result;
  result.verdict = OwnerVerdict::kLeaseLost;
  std::move(call.done)(result);
  ExpectUnharmed();
}

TEST_F(ServiceTest, ADeadlineThatPassesCountsAsLeaving) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(
      SampleBegin(), &response,
      [&] {
        FakeEngine::BeginCall call = engine_.TakeBegin();
        EXPECT_TRUE(Eventually([&] { return call.terms.caller_left->load(); }));
        std::move(call.done)(MakeFault(Fault::kDeadlineExceeded, "late"));
      },
      &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(ServiceTest, ShutdownWaitsForTheCallsAnswer) {
  v1::BeginResponse response;
  (void)BeginWhile(SampleBegin(), &response, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::thread stopping([&] { server_->Shutdown(absl::ZeroDuration()); });
    EXPECT_TRUE(Eventually([&] { return call.terms.caller_left->load(); }));
    std::move(call.done)(StartedResult(call.item));
    stopping.join();
  });
}

TEST_F(ServiceTest, ALargePayloadIsFingerprintedOnAWorker) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_data(std::string(kInlinePayloadBytes + 1, 'x'));
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(request, &response, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    EXPECT_EQ(call.item.fingerprint, *FingerprintOf("", std::string(kInlinePayloadBytes + 1, 'x')));
    std::move(call.done)(StartedResult(call.item));
  });
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServiceTest, BusyWorkersRefuseLargePayloadsAlone) {
  // The worker is held, and its queue is full.
  std::atomic<bool> is_held{false};
  std::atomic<bool> may_go{false};
  WorkerPool::Task holding = [&] {
    is_held = true;
    while (!may_go) std::this_thread::yield();
  };
  ASSERT_TRUE(workers_.TryRun(holding, 1));
  ASSERT_TRUE(Eventually([&] { return is_held.load(); }));
  WorkerPool::Task queued = [] {};
  ASSERT_TRUE(workers_.TryRun(queued, 1));

  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_data(std::string(kInlinePayloadBytes + 1, 'x'));
  grpc::ClientContext context;
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(&context, request, &response);
  EXPECT_EQ(ReasonOf(status), "OVERLOADED");
  EXPECT_EQ(metrics_.Value(Metric::kOverloaded), 1);
  ExpectUnharmed();
  may_go = true;
}

TEST_F(ServiceTest, CredentialsAreAskedForBeforeTheMessageIsRead) {
  authenticator_.Say(CredentialFault::kMissing);
  EXPECT_EQ(ReasonOf(CallRaw("Begin", "\xff\xff")), "CREDENTIALS_MISSING");
  authenticator_.Say(CredentialFault::kInvalid);
  EXPECT_EQ(ReasonOf(CallRaw("Begin", "\xff\xff")), "CREDENTIALS_INVALID");
}

TEST_F(ServiceTest, ACallerOfAnotherMerchantIsForbiddenBeforeAnythingIsSaid) {
  authenticator_.Say(Caller{.name = "other", .merchant_id = "other"});
  v1::BeginRequest request = SampleBegin();
  request.clear_operation();
  grpc::ClientContext context;
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(status), "MERCHANT_FORBIDDEN");
  EXPECT_TRUE(engine_.IsIdle());
}

}  // namespace
}  // namespace idempotency
