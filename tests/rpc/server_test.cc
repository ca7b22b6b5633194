#include "server/rpc/server.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"

namespace idempotency {
namespace {

class ServerTest : public ServiceFixture {
 protected:
  grpc::health::v1::HealthCheckResponse::ServingStatus HealthOf(const std::string& service) {
    const auto stub = grpc::health::v1::Health::NewStub(channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }
};

using grpc::health::v1::HealthCheckResponse;

TEST_F(ServerTest, HealthSaysNotServingUntilToldOtherwise) {
  EXPECT_EQ(HealthOf(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HealthOf(kServiceName), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServerTest, HealthFollowsSetServing) {
  server_->SetServing(true);
  EXPECT_EQ(HealthOf(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(HealthOf(kServiceName), HealthCheckResponse::SERVING);
  server_->SetServing(false);
  EXPECT_EQ(HealthOf(kServiceName), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServerTest, StopServingIsFinalAndServesOn) {
  server_->SetServing(true);
  server_->StopServing();
  server_->SetServing(true);
  EXPECT_EQ(HealthOf(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HealthOf(kServiceName), HealthCheckResponse::NOT_SERVING);
  ExpectUnharmed();
}

TEST_F(ServerTest, ATakenPortIsRefused) {
  const auto second = Server::Start(server_->address(), &service_);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr(server_->address()));
}

// All calls of one connection that may be under way, and one more: that one waits with its client.
TEST_F(ServerTest, CallsPastAConnectionsBoundWaitForOneToEnd) {
  struct OneCall {
    grpc::ClientContext context;
    v1::BeginResponse response;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::BeginResponse>> reader;
    grpc::Status status;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<OneCall>> calls;
  const v1::BeginRequest request = SampleBegin();
  for (int i = 0; i <= kMaxConcurrentStreams; ++i) {
    calls.push_back(std::make_unique<OneCall>());
    OneCall& call = *calls.back();
    call.reader = stub_->AsyncBegin(&call.context, request, &queue);
    call.reader->Finish(&call.response, &call.status, &call);
  }
  std::vector<FakeEngine::BeginCall> held;
  for (int i = 0; i < kMaxConcurrentStreams; ++i) held.push_back(engine_.TakeBegin());
  // What comes over another connection after them is served before the one past the bound.
  grpc::ChannelArguments own_connection;
  own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto other = v1::IdempotencyService::NewStub(grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), own_connection));
  v1::BeginRequest others = SampleBegin();
  others.set_idempotency_key("other");
  grpc::ClientContext context;
  v1::BeginResponse response;
  std::thread caller([&] { EXPECT_TRUE(other->Begin(&context, others, &response).ok()); });
  FakeEngine::BeginCall next = engine_.TakeBegin();
  EXPECT_EQ(next.item.key.idempotency_key, "other");
  std::move(next.done)(StartedResult(next.item));
  caller.join();

  std::move(held.back().done)(StartedResult(held.back().item));
  held.pop_back();
  held.push_back(engine_.TakeBegin());
  for (auto& call : held) std::move(call.done)(StartedResult(call.item));
  for (size_t i = 0; i < calls.size(); ++i) {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(static_cast<OneCall*>(tag)->status.ok());
  }
}

class MalformedAddress : public ServiceFixture, public testing::WithParamInterface<const char*> {};

TEST_P(MalformedAddress, IsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start(GetParam(), &service_).status()));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedAddress,
                         testing::Values("", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:x",
                                         "127.0.0.1:65536", "127.0.0.1:-1"));

}  // namespace
}  // namespace idempotency
