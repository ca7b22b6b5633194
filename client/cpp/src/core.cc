#include "client/cpp/src/core.h"

#include <algorithm>

#include "client/cpp/src/backoff.h"
#include "client/cpp/src/channel_watch.h"

namespace idempotency::client {
namespace {

// What a try is given at least where the answer has to be certain.
constexpr std::chrono::milliseconds kCertainTry = std::chrono::seconds(1);
// A longer rpc_timeout counts as this one, so that what comes on top does not overflow.
constexpr std::chrono::milliseconds kLongestTry = std::chrono::hours(24 * 365);

grpc::Status TryOnce(const Caller& caller, std::chrono::milliseconds timeout, const TryCall& call,
                     grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
  const std::stop_callback on_cancel(caller.cancel(), [context] { context->TryCancel(); });
  return call(context);
}

std::chrono::milliseconds TimeoutOf(const Core& core, const Caller& caller,
                                    const RepeatPlan& plan) {
  const auto least = plan.must_be_certain ? kCertainTry : std::chrono::milliseconds::zero();
  return std::min({std::min(core.options.rpc_timeout, kLongestTry) + plan.wait,
                   std::max(Until(plan.give_up_at), least), Until(caller.deadline())});
}

CallFailure NeverConnected() {
  CallFailure failure;
  failure.error = MakeError(ErrorKind::kUnavailable, "the service could not be connected to");
  failure.may_have_effect = false;
  return failure;
}

}  // namespace

std::optional<CallFailure> Repeat(const Core& core, const Caller& caller, const RepeatPlan& plan,
                                  const TryCall& call, Tries* tries) {
  Backoff backoff;
  bool has_refreshed = false;
  CallFailure failure = NeverConnected();
  for (;;) {
    if (plan.must_be_certain && !AwaitSettled(plan.channel, caller, plan.give_up_at)) {
      tries->is_time_over = true;
      return failure;
    }
    tries->was_tried = true;
    grpc::ClientContext context;
    const bool was_down = IsDown(plan.channel);
    std::optional<DownWatch> watch;
    if (was_down && plan.must_be_certain) watch.emplace(plan.channel);
    const grpc::Status status = TryOnce(caller, TimeoutOf(core, caller, plan), call, &context);
    if (status.ok()) return std::nullopt;

    failure = FailureOf(status, context);
    const bool was_never_sent =
        was_down && failure.code() == grpc::StatusCode::UNAVAILABLE &&
        failure.error.reason.empty() &&
        (watch.has_value() ? watch->WasDownAllTheTime() : IsDown(plan.channel));
    if (failure.may_have_effect && !was_never_sent) tries->may_have_effect = true;
    const bool is_away = failure.code() == grpc::StatusCode::UNAVAILABLE &&
                         (was_never_sent || IsAwayReason(failure.error.reason));
    if (!is_away) tries->was_service_away = false;
    if (caller.IsGone()) return failure;
    const bool refresh = failure.code() == grpc::StatusCode::UNAUTHENTICATED && !has_refreshed &&
                         !failure.must_not_retry;
    if (!refresh && !IsWorthRepeating(failure)) return failure;
    if (refresh) {
      has_refreshed = true;
      CallHook(core.options.hooks.refresh_credentials);
    }
    const auto pause = refresh ? std::chrono::milliseconds(0) : backoff.Next(failure.retry_after);
    const auto next = After(BootClock::now(), pause);
    if (next >= plan.give_up_at) {
      tries->is_time_over = true;
      return failure;
    }
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
