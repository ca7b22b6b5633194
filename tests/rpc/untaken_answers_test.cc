// Answers that their callers do not take: how much of them is held, and what happens past it.
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "server/rpc/errors.h"
#include "tests/rpc/error_details.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"
#include "tests/rpc/slow_reader.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

constexpr int64_t kBodyBytes = kMiB;
// What an answer has beside its body, at the most.
constexpr int64_t kEnvelopeBytes = 1024;

Outcome LargeOutcome() {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.body = std::string(kBodyBytes, 'b');
  return outcome;
}

v1::BeginRequest BeginOf(const std::string& merchant) {
  v1::BeginRequest request = SampleBegin();
  request.set_merchant_id(merchant);
  return request;
}

class UntakenAnswers : public ServiceFixture {
 protected:
  // A Begin whose replay the slow reader does not take. Returns its number.
  size_t LeaveReplay(const std::string& merchant) {
    const size_t number = reader_.Send("Begin", BeginOf(merchant));
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::move(call.done)(ReplayResult(call.item, LargeOutcome()));
    return number;
  }
  // The same by a client that reads.
  grpc::Status Replay(const std::string& merchant, grpc::ClientContext* context = nullptr) {
    v1::BeginResponse response;
    return BeginWhile(
        BeginOf(merchant), &response,
        [this] {
          FakeEngine::BeginCall call = engine_.TakeBegin();
          std::move(call.done)(ReplayResult(call.item, LargeOutcome()));
        },
        context);
  }
  // All that merchant acme may leave.
  void FillShareOfAcme() {
    for (int i = 0; i < 3; ++i) LeaveReplay("acme");
    ASSERT_TRUE(HoldsBodies(3));
  }
  int64_t Held() const { return metrics_.Value(Metric::kAnswerBytes); }
  bool HoldsBodies(int bodies) const {
    return Held() >= bodies * kBodyBytes && Held() <= bodies * (kBodyBytes + kEnvelopeBytes);
  }

  SlowReader reader_{server_->address()};
};

// gRPC calls OnDone when all of an answer has left by the windows that its caller gave, and not
// when it was handed over.
TEST_F(UntakenAnswers, AreHeldUntilTheyAreTaken) {
  const size_t number = LeaveReplay("acme");
  reader_.AwaitFirstBytes(number);
  EXPECT_TRUE(HoldsBodies(1)) << Held();
  ExpectUnharmed();
  EXPECT_TRUE(Eventually([&] { return HoldsBodies(1); })) << Held();
  v1::BeginResponse response;
  ASSERT_TRUE(reader_.Take(number, &response));
  EXPECT_EQ(response.replay().outcome().body(), std::string(kBodyBytes, 'b'));
  EXPECT_TRUE(Eventually([&] { return Held() == 0; })) << Held();
}

TEST_F(UntakenAnswers, AreGivenUpWhenTheCallIsCutOff) {
  const size_t number = LeaveReplay("acme");
  reader_.AwaitFirstBytes(number);
  EXPECT_TRUE(HoldsBodies(1)) << Held();
  reader_.Cancel(number);
  EXPECT_TRUE(Eventually([&] { return Held() == 0; })) << Held();
}

TEST_F(UntakenAnswers, PastTheirBoundReplaysAreRefusedWithAHintAndWithoutTheirBody) {
  FillShareOfAcme();
  grpc::ClientContext context;
  const grpc::Status status = Replay("acme", &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "OVERLOADED");
  EXPECT_TRUE(DetailOf<google::rpc::RetryInfo>(status).has_value());
  EXPECT_EQ(context.GetServerTrailingMetadata().count(kPushbackTrailer), 1u);
  EXPECT_EQ(metrics_.Value(Metric::kAnswersRefused), 1);
  EXPECT_EQ(metrics_.Value(Metric::kOverloaded), 1);
  EXPECT_TRUE(HoldsBodies(3)) << Held();
}

TEST_F(UntakenAnswers, PastTheirBoundLookupsAreRefusedToo) {
  FillShareOfAcme();
  v1::LookupRequest request = SampleLookup();
  request.set_include_outcome(true);
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::LookupResponse response;
    status = stub_->Lookup(&context, request, &response);
  });
  FakeEngine::LookupCall call = engine_.TakeLookup();
  BeginItem begun;
  begun.key = call.item.key;
  LookupResult result;
  result.record = ReplayResult(begun, LargeOutcome()).record;
  std::move(call.done)(result);
  caller.join();
  EXPECT_EQ(ReasonOf(status), "OVERLOADED");
}

TEST_F(UntakenAnswers, PastTheirBoundWhatHappenedIsToldAllTheSame) {
  FillShareOfAcme();
  // Leaves no byte of the room.
  const AnswerRoom::Held rest = answers_.Hold(kAnswerBytes);
  ExpectUnharmed();
  grpc::Status status;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::CompleteResponse response;
    status = stub_->Complete(&context, SampleComplete(), &response);
  });
  FakeEngine::OwnerCall call = engine_.TakeOwner();
  BeginItem begun;
  begun.key = call.item.key;
  OwnerResult result;
  result.verdict = OwnerVerdict::kRecorded;
  result.record = ReplayResult(begun, LargeOutcome()).record;
  std::move(call.done)(result);
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(metrics_.Value(Metric::kAnswersRefused), 0);
}

TEST_F(UntakenAnswers, PastTheirBoundNobodyIsToldToWait) {
  FillShareOfAcme();
  const AnswerRoom::Held rest = answers_.Hold(kAnswerBytes);
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(SampleBegin(), &response, [this] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    BeginResult result = StartedResult(call.item);
    result.verdict = BeginVerdict::kInProgress;
    std::move(call.done)(result);
  });
  EXPECT_EQ(ReasonOf(status), "OVERLOADED");
}

TEST_F(UntakenAnswers, OfOneMerchantLeaveRoomForOthers) {
  FillShareOfAcme();
  EXPECT_EQ(ReasonOf(Replay("acme")), "OVERLOADED");
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Replay("globex").ok());
    EXPECT_TRUE(Eventually([&] { return HoldsBodies(3); })) << Held();
  }
}

TEST_F(UntakenAnswers, MakeRoomWhenTheyAreTaken) {
  FillShareOfAcme();
  EXPECT_EQ(ReasonOf(Replay("acme")), "OVERLOADED");
  v1::BeginResponse response;
  ASSERT_TRUE(reader_.Take(0, &response));
  EXPECT_TRUE(Eventually([&] { return HoldsBodies(2); })) << Held();
  EXPECT_TRUE(Replay("acme").ok());
}

TEST_F(UntakenAnswers, DoNotHoldUpTheEnd) {
  FillShareOfAcme();
  engine_.Drain();
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(Held(), 0);
}

}  // namespace
}  // namespace idempotency
