#include "server/rpc/server.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
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

class MalformedAddress : public ServiceFixture, public testing::WithParamInterface<const char*> {};

TEST_P(MalformedAddress, IsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Server::Start(GetParam(), &service_).status()));
}

INSTANTIATE_TEST_SUITE_P(All, MalformedAddress,
                         testing::Values("", "127.0.0.1", ":50051", "127.0.0.1:", "127.0.0.1:x",
                                         "127.0.0.1:65536", "127.0.0.1:-1"));

}  // namespace
}  // namespace idempotency
