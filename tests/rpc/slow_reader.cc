#include "tests/rpc/slow_reader.h"

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/base/check.h"
#include "server/rpc/encoded_replay.h"

namespace idempotency {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Otherwise the windows grow with what the connection could carry.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, SlowReader::kWindowBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

SlowReader::SlowReader(const std::string& address) : stub_(ChannelTo(address)) {}

SlowReader::~SlowReader() {
  for (const auto& call : calls_) {
    call->context.TryCancel();
    grpc::Status status;
    call->stream->Finish(&status, nullptr);
    Await();
  }
  queue_.Shutdown();
}

size_t SlowReader::Send(const std::string& method, const google::protobuf::MessageLite& request) {
  calls_.push_back(std::make_unique<OneCall>());
  OneCall& call = *calls_.back();
  call.stream = stub_.PrepareCall(
      &call.context, absl::StrCat("/idempotency.v1.IdempotencyService/", method), &queue_);
  call.stream->StartCall(nullptr);
  IDEM_CHECK(Await()) << "no connection to the server";
  grpc::ByteBuffer bytes;
  Encode(request, &bytes);
  call.stream->WriteLast(bytes, grpc::WriteOptions(), nullptr);
  IDEM_CHECK(Await()) << "the request was not sent";
  return calls_.size() - 1;
}

void SlowReader::AwaitFirstBytes(size_t number) {
  calls_[number]->stream->ReadInitialMetadata(nullptr);
  Await();
}

bool SlowReader::Take(size_t number, google::protobuf::MessageLite* answer) {
  grpc::ByteBuffer bytes;
  calls_[number]->stream->Read(&bytes, nullptr);
  if (!Await()) return false;
  grpc::ProtoBufferReader reader(&bytes);
  return answer->ParseFromZeroCopyStream(&reader);
}

bool SlowReader::Await() {
  void* tag = nullptr;
  bool ok = false;
  IDEM_CHECK(queue_.Next(&tag, &ok)) << "the queue was shut down";
  return ok;
}

}  // namespace idempotency
