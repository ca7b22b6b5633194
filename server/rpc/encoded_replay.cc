#include "server/rpc/encoded_replay.h"

#include <memory>
#include <utility>

#include "grpcpp/support/proto_buffer_writer.h"
#include "server/base/check.h"
#include "server/record/limit.h"

namespace idempotency {

EncodedReplay::EncodedReplay(const google::protobuf::MessageLite& response,
                             std::shared_ptr<ReplayCounter> counter)
    : counter_(std::move(counter)) {
  Encode(response, &bytes_);
}

const EncodedReplay* EncodedReplayIn(const ReplayMemo& memo) {
  return static_cast<const EncodedReplay*>(memo.Get());
}

const EncodedReplay& KeepEncoded(const ReplayMemo& memo,
                                 const google::protobuf::MessageLite& response,
                                 std::shared_ptr<ReplayCounter> counter) {
  return static_cast<const EncodedReplay&>(
      memo.Keep(std::make_unique<const EncodedReplay>(response, std::move(counter))));
}

void Encode(const google::protobuf::MessageLite& message, grpc::ByteBuffer* bytes) {
  // 1 MiB: what gRPC's own serialisation uses as the largest block.
  grpc::ProtoBufferWriter writer(bytes, static_cast<int>(kMiB),
                                 static_cast<int>(message.ByteSizeLong()));
  IDEM_CHECK(message.SerializeToZeroCopyStream(&writer)) << "an answer could not be serialized";
}

}  // namespace idempotency
