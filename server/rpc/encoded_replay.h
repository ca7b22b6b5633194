// The answer to a replayed Begin, encoded once and kept beside the record in the replay cache.
//
// Nothing in it depends on who asks, nor on when: a replay carries no attempt id and no remaining
// time.
#pragma once

#include <memory>

#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/record/replay_memo.h"
#include "server/rpc/call_log.h"

namespace idempotency {

// Thread-safe.
class EncodedReplay final : public ReplayMemo::Content {
 public:
  EncodedReplay(const google::protobuf::MessageLite& response,
                std::shared_ptr<ReplayCounter> counter);

  // Its copies share the bytes.
  const grpc::ByteBuffer& bytes() const { return bytes_; }
  // Where its record's replays are counted for the log.
  ReplayCounter& counter() const { return *counter_; }

 private:
  grpc::ByteBuffer bytes_;
  const std::shared_ptr<ReplayCounter> counter_;
};

// What rpc/ keeps in a memo is always this. Null: nothing is kept yet.
const EncodedReplay* EncodedReplayIn(const ReplayMemo& memo);
// Encodes and keeps the answer; returns what is kept, which may be another thread's.
const EncodedReplay& KeepEncoded(const ReplayMemo& memo,
                                 const google::protobuf::MessageLite& response,
                                 std::shared_ptr<ReplayCounter> counter);

// As it goes over the wire.
void Encode(const google::protobuf::MessageLite& message, grpc::ByteBuffer* bytes);

}  // namespace idempotency
