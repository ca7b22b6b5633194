// One unary call, from its first byte to its answer.
//
// A Call deletes itself once gRPC has no more use for it, so its maker keeps the pointer only until
// it has answered. Answering is done exactly once, by Answer or Refuse, from any thread, also when
// the caller has left by then: that only sets caller_left(), the work goes on or is dropped by
// whoever does it. A caller's trace (traceparent.h) goes back to it in the trailing metadata, which
// answers and refusals alike have.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/clock.h"
#include "server/base/rpc_metrics.h"
#include "server/base/trace_id.h"
#include "server/engine/merchant_limits.h"
#include "server/record/fault.h"
#include "server/record/record.h"
#include "server/rpc/call_log.h"
#include "server/rpc/errors.h"
#include "server/rpc/traceparent.h"

namespace idempotency {

class Call final : public grpc::ServerUnaryReactor {
 public:
  // `context` and `response` are gRPC's and live as long as the call; `clock`, `log` and `metrics`
  // must outlive it.
  Call(RpcMethod method, grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
       Clock* clock, CallLog* log, RpcMetrics* metrics);

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

  // Each ends the call; `this` may be gone when it returns.
  void Answer(const google::protobuf::MessageLite& message);
  // With a message that was encoded before; its bytes are shared.
  void AnswerEncoded(const grpc::ByteBuffer& bytes);
  void Refuse(const CallError& error);
  // The engine could not decide. What it says goes to the log, its kind to the caller.
  void RefuseFault(const absl::Status& status);

  void OnCancel() override { caller_left_->store(true, std::memory_order_relaxed); }
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
  Clock* const clock_;
  CallLog* const log_;
  RpcMetrics* const metrics_;
  const absl::Duration received_;
  const absl::Duration deadline_;
  const TraceContext trace_;
  const std::shared_ptr<std::atomic<bool>> caller_left_;
  RecordKey key_;
  MerchantLimits::Place place_;
  std::atomic<bool> ended_{false};
};

}  // namespace idempotency
