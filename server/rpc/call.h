// One unary call, from its first byte to its answer.
//
// A Call deletes itself once gRPC has no more use for it, so its maker keeps the pointer only until
// it has answered. Answering is done exactly once, by Answer or Refuse, from any thread, also when
// the caller has left by then: that only sets caller_left(), the work goes on or is dropped by
// whoever does it.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/clock.h"
#include "server/record/fault.h"
#include "server/record/record.h"
#include "server/rpc/call_log.h"
#include "server/rpc/errors.h"

namespace idempotency {

class Call final : public grpc::ServerUnaryReactor {
 public:
  // `method` is a constant text. `context` and `response` are gRPC's and live as long as the call;
  // `clock` and `log` must outlive it.
  Call(absl::string_view method, grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
       Clock* clock, CallLog* log);

  // For logs. Set before the call is given to another thread.
  void SetKey(const RecordKey& key) { key_ = key; }

  // On Clock::BootTime's scale; a call without one has kDefaultDeadline.
  absl::Duration deadline() const { return deadline_; }
  std::shared_ptr<const std::atomic<bool>> caller_left() const { return caller_left_; }

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

  const absl::string_view method_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  Clock* const clock_;
  CallLog* const log_;
  const absl::Duration received_;
  const absl::Duration deadline_;
  const std::shared_ptr<std::atomic<bool>> caller_left_;
  RecordKey key_;
  std::atomic<bool> ended_{false};
};

}  // namespace idempotency
