// Floods of the largest messages, and of larger ones: the server lives, its memory stays bounded.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

// The highest amount of memory that a process has had, in MiB.
int64_t PeakMiB(int pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(status, line)) {
    absl::string_view text = line;
    int64_t kib = 0;
    if (absl::ConsumePrefix(&text, "VmHWM:") && absl::ConsumeSuffix(&text, "kB") &&
        absl::SimpleAtoi(text, &kib)) {
      return kib / 1024;
    }
  }
  ADD_FAILURE() << "no memory is told of process " << pid;
  return 0;
}

// Calls with the same bytes, all under way at once over several connections. Returns how many of
// them ended with each code.
std::map<grpc::StatusCode, int> SendAtOnce(const std::string& address, size_t bytes,
                                           int connections, int calls_of_each) {
  const grpc::Slice slice(std::string(bytes, '\0'));
  const grpc::ByteBuffer message(&slice, 1);
  struct OneCall {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer response;
    grpc::Status status;
  };
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  std::vector<std::unique_ptr<OneCall>> calls;
  for (int i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    stubs.push_back(std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    for (int k = 0; k < calls_of_each; ++k) {
      calls.push_back(std::make_unique<OneCall>());
      OneCall& call = *calls.back();
      call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
      call.reader = stubs.back()->PrepareUnaryCall(
          &call.context, "/idempotency.v1.IdempotencyService/Begin", message, &queue);
      call.reader->StartCall();
      call.reader->Finish(&call.response, &call.status, &call);
    }
  }
  std::map<grpc::StatusCode, int> codes;
  for (size_t i = 0; i < calls.size(); ++i) {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    ++codes[static_cast<OneCall*>(tag)->status.error_code()];
  }
  return codes;
}

class LargeMessages : public testing::Test {
 protected:
  static constexpr int kConnections = 16;
  static constexpr int kCallsOfEach = 16;

  int64_t Peak() { return PeakMiB(replicas_.process(0).pid()); }
  std::map<grpc::StatusCode, int> Flood(size_t bytes) {
    return SendAtOnce(replicas_.address(0), bytes, kConnections, kCallsOfEach);
  }

  const MigratedDatabase database_;
  ReplicaProcesses replicas_{1, database_.conninfo()};
};

// 1 GiB of them each time. What is held at once is bounded by gRPC's quota (server/rpc/server.cc),
// what the parser makes of a few of them, and what the allocator keeps: it does not grow with what
// is sent.
TEST_F(LargeMessages, AtOnceLeaveMemoryBoundedAndTheServerAlive) {
  int64_t first_peak = 0;
  for (int flood = 0; flood < 4; ++flood) {
    int ended = 0;
    for (const auto& [code, count] : Flood(kMaxReceiveBytes)) {
      ended += count;
      // Zeros are no message; under pressure gRPC refuses streams, and may drop a connection.
      EXPECT_TRUE(code == grpc::StatusCode::INVALID_ARGUMENT ||
                  code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                  code == grpc::StatusCode::UNAVAILABLE)
          << code;
    }
    EXPECT_EQ(ended, kConnections * kCallsOfEach);
    ASSERT_TRUE(replicas_.process(0).Running()) << replicas_.process(0).Log();
    if (flood == 0) first_peak = Peak();
  }
  // Half a flood more than after the first one, with three more sent.
  EXPECT_LT(Peak(), first_peak + 512);
  EXPECT_TRUE(Eventually([&] { return replicas_.client(0).Begin(BeginOf("later", "a")).ok(); }));
}

TEST_F(LargeMessages, OneByteOverTheLimitAreAllRefusedAndTheServerAlive) {
  const auto codes = Flood(kMaxReceiveBytes + 1);
  for (const auto& [code, count] : codes) {
    EXPECT_TRUE(code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                code == grpc::StatusCode::UNAVAILABLE)
        << code;
  }
  EXPECT_GT(codes.count(grpc::StatusCode::RESOURCE_EXHAUSTED), 0u);
  EXPECT_TRUE(Eventually([&] { return replicas_.client(0).Begin(BeginOf("later", "a")).ok(); }));
}

}  // namespace
}  // namespace idempotency
