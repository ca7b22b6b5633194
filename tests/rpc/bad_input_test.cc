// What no client of ours sends: the service says what is wrong where it can, and goes on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/rpc/error_details.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"

namespace idempotency {
namespace {

using BadInput = ServiceFixture;

class BadMessage : public ServiceFixture, public testing::WithParamInterface<const char*> {};

TEST_P(BadMessage, ThatCannotBeParsedIsInvalidField) {
  // A field that says it is longer than the message.
  const grpc::Status status = CallRaw(GetParam(),
                                      "\x0a\x7f"
                                      "abc");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(WrongFieldsOf(status), "(message)");
  ExpectUnharmed();
}

TEST_P(BadMessage, WithAStringThatIsNotUtf8IsInvalidField) {
  // merchant_id is field 1 of every request.
  const grpc::Status status = CallRaw(GetParam(), "\x0a\x02\xc3\x28");
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(WrongFieldsOf(status), "(message)");
  ExpectUnharmed();
}

TEST_P(BadMessage, ThatIsEmptyNamesTheRequiredFields) {
  const grpc::Status status = CallRaw(GetParam(), "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(WrongFieldsOf(status).rfind("merchant_id,idempotency_key", 0), 0u);
  ExpectUnharmed();
}

TEST_P(BadMessage, OverTheReceiveLimitIsGrpcsOwnResourceExhausted) {
  const grpc::Status status = CallRaw(GetParam(), std::string(kMaxReceiveBytes + 1, '\0'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_details(), "");
  ExpectUnharmed();
}

INSTANTIATE_TEST_SUITE_P(EveryRpc, BadMessage,
                         testing::Values("Begin", "Complete", "Fail", "Renew", "Lookup"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_F(BadInput, InvalidUtf8InALabelIsInvalidField) {
  std::string bytes = SampleBegin().SerializeAsString();
  // labels is field 12; an entry with the name "a" and a value that is not UTF-8.
  bytes += std::string(
      "\x62\x06\x0a\x01"
      "a"
      "\x12\x01\xff",
      8);
  EXPECT_EQ(WrongFieldsOf(CallRaw("Begin", bytes)), "(message)");
}

TEST_F(BadInput, InvalidUtf8InAHeaderNameIsInvalidField) {
  std::string bytes = SampleComplete().SerializeAsString();
  // outcome is field 4, its headers field 2, their name field 1; messages given twice are merged.
  bytes += std::string("\x22\x05\x12\x03\x0a\x01\xff", 7);
  EXPECT_EQ(WrongFieldsOf(CallRaw("Complete", bytes)), "(message)");
}

TEST_F(BadInput, InvalidUtf8InAFailuresTextIsInvalidField) {
  std::string bytes = SampleFail().SerializeAsString();
  bytes += std::string("\x22\x03\x12\x01\xff", 5);
  EXPECT_EQ(WrongFieldsOf(CallRaw("Fail", bytes)), "(message)");
}

TEST_F(BadInput, AFullMessageJustWithinTheReceiveLimitIsReadAndJudged) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_data(std::string(kMaxReceiveBytes - 256, 'x'));
  ASSERT_LE(request.ByteSizeLong(), kMaxReceiveBytes);
  grpc::ClientContext context;
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(&context, request, &response);
  EXPECT_EQ(WrongFieldsOf(status), "payload.data");
}

TEST_F(BadInput, AMessageOf100MegabytesLeavesTheServiceUnharmed) {
  const grpc::Status status = CallRaw("Begin", std::string(100 * kMiB, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectUnharmed();
}

TEST_F(BadInput, ACompressedMessageIsNotUnpacked) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_data(std::string(kMiB, 'x'));
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  ExpectUnharmed();
}

TEST_F(BadInput, AnUnknownMethodIsUnimplemented) {
  EXPECT_EQ(CallRaw("Delete", "").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  ExpectUnharmed();
}

// Sends the bytes to the port and returns when the server has hung up, or has answered and waits.
void SendToPort(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  // It may hang up in the middle.
  (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  char answer[1024];
  (void)!recv(fd, answer, sizeof(answer), 0);
  close(fd);
}

TEST_F(BadInput, GarbageOnThePortLeavesTheServiceUnharmed) {
  std::string garbage;
  for (int i = 0; i < 100'000; ++i) garbage.push_back(static_cast<char>((i * 7919) >> 3));
  SendToPort(server_->port(), garbage);
  ExpectUnharmed();
}

TEST_F(BadInput, Http1OnThePortLeavesTheServiceUnharmed) {
  SendToPort(server_->port(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ExpectUnharmed();
}

TEST_F(BadInput, TlsOnThePortLeavesTheServiceUnharmed) {
  // The beginning of a ClientHello.
  SendToPort(server_->port(), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
                                  std::string(512, '\x11'));
  ExpectUnharmed();
}

TEST_F(BadInput, AnHttp2PrefaceWithBrokenFramesLeavesTheServiceUnharmed) {
  SendToPort(server_->port(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(4096, '\xff'));
  ExpectUnharmed();
}

}  // namespace
}  // namespace idempotency
