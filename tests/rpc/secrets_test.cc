// No secret of a call appears in a log line or in an error, whatever becomes of the call.
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fault.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::Not;

// Planted wherever a caller can put something that nobody else is to see.
constexpr char kSecret[] = "4111111111111111-S3CR3T";

class SecretsTest : public ServiceFixture {
 protected:
  void ExpectNoSecret(const grpc::Status& status) {
    EXPECT_THAT(status.error_message(), Not(HasSubstr("S3CR3T")));
    EXPECT_THAT(status.error_details(), Not(HasSubstr("S3CR3T")));
  }
  void ExpectNoSecretInLog() {
    const std::string log = StopLog();
    EXPECT_THAT(log, HasSubstr("\"event\":\"rpc\""));
    EXPECT_THAT(log, Not(HasSubstr("S3CR3T")));
    EXPECT_THAT(log, Not(HasSubstr("4111111111111111")));
  }
  v1::BeginRequest SecretBegin() {
    v1::BeginRequest request = SampleBegin();
    request.set_attempt_id(kSecret);
    request.mutable_payload()->set_data(kSecret);
    (*request.mutable_labels())["card"] = kSecret;
    return request;
  }
  v1::FailRequest SecretFail() {
    v1::FailRequest request = SampleFail();
    request.set_attempt_id(kSecret);
    request.mutable_failure()->set_code(kSecret);
    request.mutable_failure()->set_message(kSecret);
    v1::Outcome& outcome = *request.mutable_failure()->mutable_outcome();
    outcome.set_body(kSecret);
    v1::Header* header = outcome.add_headers();
    header->set_name("Authorization");
    header->set_value(kSecret);
    return request;
  }
};

TEST_F(SecretsTest, StayOutOfAnswersAndReplays) {
  v1::BeginResponse response;
  for (const bool replay : {false, true}) {
    const grpc::Status status = BeginWhile(SecretBegin(), &response, [&] {
      FakeEngine::BeginCall call = engine_.TakeBegin();
      Outcome outcome;
      outcome.body = kSecret;
      std::move(call.done)(replay ? ReplayResult(call.item, outcome) : StartedResult(call.item));
    });
    EXPECT_TRUE(status.ok());
  }
  ExpectNoSecretInLog();
}

TEST_F(SecretsTest, StayOutOfRefusals) {
  for (const BeginVerdict verdict :
       {BeginVerdict::kKeyReused, BeginVerdict::kLeaseLost, BeginVerdict::kNeedsResolution}) {
    v1::BeginResponse response;
    ExpectNoSecret(BeginWhile(SecretBegin(), &response, [&] {
      FakeEngine::BeginCall call = engine_.TakeBegin();
      BeginResult result = StartedResult(call.item);
      result.verdict = verdict;
      std::move(call.done)(result);
    }));
  }
  ExpectNoSecretInLog();
}

TEST_F(SecretsTest, StayOutOfFaults) {
  for (const Fault fault : {Fault::kInternal, Fault::kStoreUnavailable, Fault::kCommitUnknown}) {
    grpc::ClientContext context;
    v1::FailResponse response;
    grpc::Status status;
    std::thread caller([&] { status = stub_->Fail(&context, SecretFail(), &response); });
    std::move(engine_.TakeOwner().done)(MakeFault(fault, "the store's own words"));
    caller.join();
    ExpectNoSecret(status);
  }
  ExpectNoSecretInLog();
}

TEST_F(SecretsTest, StayOutOfViolations) {
  v1::BeginRequest begin = SecretBegin();
  begin.set_idempotency_key(std::string(kSecret) + "\n");
  begin.set_operation(std::string(kSecret) + "\n");
  begin.set_attempt_id(std::string(kSecret) + "\n");
  begin.mutable_payload()->set_content_type("application/json");
  (*begin.mutable_labels())["card"] = std::string(kSecret) + "\n";
  grpc::ClientContext context;
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(&context, begin, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ExpectNoSecret(status);
  ExpectNoSecret(CallRaw("Begin", std::string("\x0a\x7f") + kSecret));
  ExpectNoSecretInLog();
}

}  // namespace
}  // namespace idempotency
