// One unary call, from its first byte to its answer.
//
// A Call deletes itself once gRPC has no more use for it, so its maker keeps the pointer only until
// it has answered. Answering is done exactly once, by Answer or Refuse, from any thread, also when
// the caller has left by then: that only sets caller_left(), the work goes on or is dropped by
// whoever does it. A caller's trace (traceparent.h) goes back to it in the trailing metadata, which
// answers and refusals alike have.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/base/rpc_metrics.h"
#include "server/base/trace_id.h"
#include "server/engine/merchant_limits.h"
#include "server/record/fault.h"
#include "server/record/record.h"
#include "server/rpc/answer_room.h"
#include "server/rpc/call_log.h"
#include "server/rpc/errors.h"
#include "server/rpc/traceparent.h"

namespace idempotency {

class Call final : public grpc::ServerUnaryReactor {
 public:
  // What calls share; all must outlive them.
  struct Parts {
    Clock* clock;
    CallLog* log;
    Metrics* metrics;
    AnswerRoom* answers;
  };
  // `context` and `response` are gRPC's and live as long as the call.
  Call(RpcMethod method, grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
       const Parts& parts);

  // For logs. Set before the call is given to another thread.
  void SetKey(const RecordKey& key) { key_ = key; }
  // Given back when the call is answered. As SetKey.
  void HoldPlace(MerchantLimits::Place place) { place_ = std::move(place); }

  // On Clock::BootTime's scale, too.
  absl::Duration received() const { return received_; }
  // On Clock::BootTime's scale; a call without one has kDefaultDeadline.
  absl::Duration deadline() const { return deadline_; }
  std::shared_ptr<const std::atomic<bool>> caller_left() const { return caller_left_; }

  // Not set when the caller named none.
  const TraceId& trace() const { return trace_.trace; }

  // Before an answer of so many bytes to a call that did nothing. False: there is no room for it
  // (answer_room.h), and the call has been refused with OVERLOADED. An answer without this goes out
  // in any case. REQUIRES: SetKey was called.
  bool TakeRoom(size_t bytes);

  // Each ends the call; `this` may be gone when it returns.
  void Answer(const google::protobuf::MessageLite& message);
  // With a message that was encoded before; its bytes are shared.
  void AnswerEncoded(const grpc::ByteBuffer& bytes);
  void Refuse(const CallError& error);
  // The engine could not decide. What it says goes to the log, its kind to the caller.
  void RefuseFault(const absl::Status& status);

  void OnCancel() override { caller_left_->store(true, std::memory_order_relaxed); }
  // gRPC keeps nothing of the answer any more: the caller has taken it, as far as the windows that
  // it gave tell, or the call was cut off.
  void OnDone() override { delete this; }
  // Neither reaction does anything worth a thread of its own: without this gRPC hands each to its
  // executor, a wake-up for every call. It is what gRPC's own default reactor says.
  bool InternalInlineable() override { return true; }

 private:
  ~Call() override = default;
  void End(const grpc::Status& status, absl::string_view reason);

  const RpcMethod method_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  const Parts parts_;
  const absl::Duration received_;
  const absl::Duration deadline_;
  const TraceContext trace_;
  const std::shared_ptr<std::atomic<bool>> caller_left_;
  RecordKey key_;
  MerchantLimits::Place place_;
  // Until gRPC is done with the answer.
  std::optional<AnswerRoom::Held> room_;
  std::atomic<bool> ended_{false};
};

}  // namespace idempotency
