#include "server/rpc/call.h"

#include "absl/strings/str_cat.h"
#include "grpc/support/time.h"
#include "server/base/check.h"
#include "server/record/limit.h"
#include "server/record/record_id.h"
#include "server/rpc/encoded_replay.h"

namespace idempotency {
namespace {

absl::Duration DeadlineOf(const grpc::CallbackServerContext& context, absl::Duration now) {
  const gpr_timespec given = context.raw_deadline();
  if (gpr_time_cmp(given, gpr_inf_future(given.clock_type)) == 0) return now + kDefaultDeadline;
  // By the clock that the deadline is counted on: for gRPC's own deadlines the monotonic one, which
  // nobody sets.
  const gpr_timespec left = gpr_time_sub(given, gpr_now(given.clock_type));
  return now + absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

absl::string_view CodeName(grpc::StatusCode code) {
  static constexpr absl::string_view kNames[] = {"OK",
                                                 "CANCELLED",
                                                 "UNKNOWN",
                                                 "INVALID_ARGUMENT",
                                                 "DEADLINE_EXCEEDED",
                                                 "NOT_FOUND",
                                                 "ALREADY_EXISTS",
                                                 "PERMISSION_DENIED",
                                                 "RESOURCE_EXHAUSTED",
                                                 "FAILED_PRECONDITION",
                                                 "ABORTED",
                                                 "OUT_OF_RANGE",
                                                 "UNIMPLEMENTED",
                                                 "INTERNAL",
                                                 "UNAVAILABLE",
                                                 "DATA_LOSS",
                                                 "UNAUTHENTICATED"};
  return kNames[static_cast<size_t>(code)];
}

}  // namespace

Call::Call(RpcMethod method, grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
           const Parts& parts)
    : method_(method),
      context_(context),
      response_(response),
      parts_(parts),
      received_(parts.clock->BootTime()),
      deadline_(DeadlineOf(*context, received_)),
      trace_(TraceOf(*context)),
      caller_left_(std::make_shared<std::atomic<bool>>(false)) {
  parts_.metrics->rpc().Started(method);
}

bool Call::TakeRoom(size_t bytes) {
  std::optional<AnswerRoom::Held> held = parts_.answers->TryHold(key_.merchant_id, bytes);
  if (!held.has_value()) {
    parts_.metrics->Add(Metric::kOverloaded);
    Refuse(FaultError(Fault::kOverloaded, ""));
    return false;
  }
  room_.emplace(*std::move(held));
  return true;
}

void Call::Answer(const google::protobuf::MessageLite& message) {
  if (!room_.has_value()) room_.emplace(parts_.answers->Hold(message.ByteSizeLong()));
  Encode(message, response_);
  End(grpc::Status::OK, "");
}

void Call::AnswerEncoded(const grpc::ByteBuffer& bytes) {
  *response_ = bytes;
  End(grpc::Status::OK, "");
}

void Call::Refuse(const CallError& error) {
  if (error.retry_after.has_value()) {
    // Rounded up: who comes back at that instant is not to be too early.
    const absl::Duration pushback = absl::Ceil(*error.retry_after, absl::Milliseconds(1));
    context_->AddTrailingMetadata(kPushbackTrailer,
                                  absl::StrCat(absl::ToInt64Milliseconds(pushback)));
  }
  End(error.status, error.reason);
}

void Call::RefuseFault(const absl::Status& status) {
  const Fault fault = FaultOf(status);
  std::string request_id;
  if (fault == Fault::kInternal) {
    request_id = RandomUuidText();
    parts_.log->OnInternal(request_id, RpcMethodName(method_), key_, status, trace());
  }
  Refuse(FaultError(fault, request_id));
}

void Call::End(const grpc::Status& status, absl::string_view reason) {
  IDEM_CHECK(!ended_.exchange(true)) << RpcMethodName(method_) << " was answered twice";
  if (trace().is_set()) context_->AddTrailingMetadata(kTraceparent, TraceparentText(trace_));
  const absl::Duration took = parts_.clock->BootTime() - received_;
  parts_.metrics->rpc().Handled(method_, status.error_code(), took);
  parts_.log->OnAnswered(RpcMethodName(method_), key_, CodeName(status.error_code()), reason, took,
                         trace());
  // Before the answer: its caller may use the place for its next call.
  place_ = {};
  Finish(status);
}

}  // namespace idempotency
