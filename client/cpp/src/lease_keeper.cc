#include "client/cpp/src/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "client/cpp/src/convert.h"
#include "client/cpp/src/core.h"

namespace idempotency::client {
namespace {

// A lease that has nearly no time left is not renewed in a busy loop.
constexpr std::chrono::milliseconds kShortestThird{20};

std::chrono::milliseconds ThirdOf(std::chrono::milliseconds lease) {
  return std::max(lease / 3, kShortestThird);
}

}  // namespace

LeaseKeeper::LeaseKeeper(std::shared_ptr<Core> core, v1::RenewRequest request,
                         std::optional<Lease> lease, BootClock::time_point stop_at,
                         BootClock::time_point caller_deadline)
    : core_(std::move(core)),
      request_(std::move(request)),
      stop_at_(stop_at),
      caller_deadline_(caller_deadline),
      is_over_(!lease.has_value()) {
  if (!lease.has_value()) return;
  deadline_ = lease->deadline();
  third_ = ThirdOf(lease->remaining);
  renew_at_ = After(lease->sent_at, third_);
}

void LeaseKeeper::Start() {
  const std::lock_guard lock(mu_);
  ScheduleLocked(BootClock::now());
}

void LeaseKeeper::End() {
  std::shared_ptr<Try> current;
  {
    const std::lock_guard lock(mu_);
    has_ended_ = true;
    is_over_ = true;
    if (timer_.has_value()) core_->timers.Cancel(*timer_);
    current = current_;
  }
  if (current != nullptr) current->context.TryCancel();
}

void LeaseKeeper::Stop(StopReason reason) {
  {
    const std::lock_guard lock(mu_);
    if (has_ended_ || reason_ != StopReason::kNone) return;
    reason_ = reason;
  }
  // Without the lock: it calls back into the application.
  stop_.request_stop();
}

StopReason LeaseKeeper::reason() {
  const std::lock_guard lock(mu_);
  return reason_;
}

std::chrono::milliseconds LeaseKeeper::Remaining() {
  const std::lock_guard lock(mu_);
  return Until(deadline_);
}

void LeaseKeeper::ScheduleLocked(BootClock::time_point now) {
  if (has_ended_) return;
  auto next = BootClock::time_point::max();
  if (reason_ == StopReason::kNone) next = std::min(deadline_, caller_deadline_);
  if (reason_ == StopReason::kNone || !is_over_) next = std::min(next, stop_at_);
  if (!is_over_ && current_ == nullptr) next = std::min(next, renew_at_);
  if (timer_.has_value()) core_->timers.Cancel(*timer_);
  timer_.reset();
  if (next == BootClock::time_point::max()) return;
  timer_ = core_->timers.At(std::max(next, now), [self = shared_from_this()] { self->OnTimer(); });
}

void LeaseKeeper::OnTimer() {
  auto reason = StopReason::kNone;
  bool renew = false;
  {
    const std::lock_guard lock(mu_);
    if (has_ended_) return;
    const auto now = BootClock::now();
    if (now >= stop_at_) {
      is_over_ = true;
      reason = StopReason::kMaxDuration;
    } else if (now >= deadline_) {
      reason = StopReason::kLeaseLost;
    } else if (now >= caller_deadline_) {
      reason = StopReason::kDeadline;
    }
    renew = !is_over_ && current_ == nullptr && now >= renew_at_;
  }
  if (reason != StopReason::kNone) Stop(reason);
  if (renew) SendRenew();
  const std::lock_guard lock(mu_);
  ScheduleLocked(BootClock::now());
}

void LeaseKeeper::SendRenew() {
  auto one = std::make_shared<Try>();
  {
    const std::lock_guard lock(mu_);
    if (is_over_) return;
    // A try that hangs leaves time for another one.
    const auto timeout =
        std::clamp(third_, std::chrono::milliseconds(200),
                   std::max(core_->options.rpc_timeout, std::chrono::milliseconds(200)));
    one->context.set_deadline(std::chrono::system_clock::now() + timeout);
    one->sent_at = BootClock::now();
    current_ = one;
  }
  core_->calls->async()->Renew(
      &one->context, &request_, &one->response,
      CountedCallback(core_->calls_in_flight,
                      [self = shared_from_this(), one](const grpc::Status& status) {
                        self->OnAnswer(one, status);
                      }));
}

void LeaseKeeper::OnAnswer(const std::shared_ptr<Try>& one, const grpc::Status& status) {
  std::optional<CallFailure> failure;
  const grpc::Status checked = CheckAnswer(status, one->response.has_lease_remaining());
  if (!checked.ok()) failure = FailureOf(checked, one->context);
  bool is_lost = false;
  bool refresh = false;
  {
    const std::lock_guard lock(mu_);
    current_ = nullptr;
    if (has_ended_) return;
    if (!failure.has_value()) {
      const Lease lease = {one->sent_at, FromProto(one->response.lease_remaining())};
      deadline_ = lease.deadline();
      third_ = ThirdOf(lease.remaining);
      renew_at_ = After(lease.sent_at, third_);
      backoff_.Reset();
      has_refreshed_ = false;
    } else {
      is_lost = failure->error.kind == ErrorKind::kLeaseLost ||
                failure->error.kind == ErrorKind::kRecordNotFound;
      if (is_lost) is_over_ = true;
      refresh = OnFailureLocked(*failure);
    }
  }
  if (refresh) CallHook(core_->options.hooks.refresh_credentials);
  if (is_lost) {
    Stop(StopReason::kLeaseLost);
  } else if (failure.has_value()) {
    CallHook(core_->options.hooks.on_retry, "Renew", failure->error);
  }
  const std::lock_guard lock(mu_);
  ScheduleLocked(BootClock::now());
}

bool LeaseKeeper::OnFailureLocked(const CallFailure& failure) {
  // NEEDS_RESOLUTION: the takeover window leaves no lease. The one that is held runs to its end.
  if (failure.error.kind == ErrorKind::kNeedsResolution ||
      failure.error.kind == ErrorKind::kInvalidField) {
    is_over_ = true;
    return false;
  }
  // Not now. The next one is as far away as after an answer, since the lease is still to be kept.
  if (failure.must_not_retry) {
    renew_at_ = After(BootClock::now(), third_);
    return false;
  }
  const bool refresh =
      failure.code() == grpc::StatusCode::UNAUTHENTICATED && !std::exchange(has_refreshed_, true);
  const auto pause = refresh ? std::chrono::milliseconds(0) : backoff_.Next(failure.retry_after);
  renew_at_ = After(BootClock::now(), pause);
  return refresh;
}

}  // namespace idempotency::client
