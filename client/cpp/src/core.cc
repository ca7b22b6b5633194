#include "client/cpp/src/core.h"

#include <algorithm>

#include "client/cpp/src/backoff.h"

namespace idempotency::client {
namespace {

grpc::Status TryOnce(const Caller& caller, std::chrono::milliseconds timeout, const TryCall& call,
                     grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
  const std::stop_callback on_cancel(caller.cancel(), [context] { context->TryCancel(); });
  return call(context);
}

bool IsDown(grpc::ChannelInterface* channel) {
  return channel != nullptr && channel->GetState(/*try_to_connect=*/false) ==
                                   grpc_connectivity_state::GRPC_CHANNEL_TRANSIENT_FAILURE;
}

}  // namespace

std::optional<CallFailure> Repeat(const Core& core, const Caller& caller, const RepeatPlan& plan,
                                  const TryCall& call, bool* may_have_effect) {
  Backoff backoff;
  bool has_refreshed = false;
  for (;;) {
    grpc::ClientContext context;
    const auto timeout = std::min(
        {core.options.rpc_timeout + plan.wait, Until(plan.give_up_at), Until(caller.deadline())});
    const bool was_down = IsDown(plan.channel);
    const grpc::Status status = TryOnce(caller, timeout, call, &context);
    if (status.ok()) return std::nullopt;

    CallFailure failure = FailureOf(status, context);
    const bool was_never_sent = was_down && failure.code() == grpc::StatusCode::UNAVAILABLE &&
                                failure.error.reason.empty() && IsDown(plan.channel);
    if (failure.may_have_effect && !was_never_sent) *may_have_effect = true;
    if (caller.IsGone()) return failure;
    const bool refresh = failure.code() == grpc::StatusCode::UNAUTHENTICATED && !has_refreshed;
    if (!refresh && !IsWorthRepeating(failure)) return failure;
    if (refresh) {
      has_refreshed = true;
      CallHook(core.options.hooks.refresh_credentials);
    }
    const auto pause = refresh ? std::chrono::milliseconds(0) : backoff.Next(failure.retry_after);
    const auto next = After(BootClock::now(), pause);
    if (next >= plan.give_up_at) return failure;
    CallHook(core.options.hooks.on_retry, plan.rpc, failure.error);
    caller.SleepUntil(next);
    if (caller.IsGone()) return failure;
  }
}

grpc::Status CheckAnswer(const grpc::Status& status, bool is_whole) {
  if (!status.ok() || is_whole) return status;
  return grpc::Status(grpc::StatusCode::INTERNAL,
                      "the service's answer is none that this client can read");
}

}  // namespace idempotency::client
