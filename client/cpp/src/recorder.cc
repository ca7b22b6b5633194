#include "client/cpp/src/recorder.h"

#include <algorithm>
#include <utility>

#include "client/cpp/src/convert.h"
#include "client/cpp/src/core.h"

namespace idempotency::client {
namespace {

// When a release that came before its Begin is tried again. Guessed: a Begin takes milliseconds,
// and one that is still queued when its caller has left is dropped.
constexpr std::chrono::milliseconds kLateLook = std::chrono::seconds(2);

}  // namespace

Recorder::Recorder(std::shared_ptr<Core> core, Request request,
                   std::function<void(const Error&)> on_lost, bool may_be_early)
    : core_(std::move(core)),
      on_lost_(std::move(on_lost)),
      give_up_at_(After(BootClock::now(), core_->options.record_timeout)),
      request_(std::move(request)),
      may_be_early_(may_be_early) {}

void Recorder::Start() {
  core_->recorders.Add(shared_from_this());
  StartTry();
}

void Recorder::StartTry() {
  auto one = std::make_shared<Try>();
  // At least a moment for the last try, however little of the budget is left.
  const auto timeout = std::min(core_->options.rpc_timeout,
                                std::max(Until(give_up_at_), std::chrono::milliseconds(100)));
  one->context.set_deadline(std::chrono::system_clock::now() + timeout);
  {
    const std::lock_guard lock(mu_);
    if (is_ending_) return;
    current_ = one;
  }
  CountedCallback answered(core_->calls_in_flight,
                           [self = shared_from_this(), one](const grpc::Status& status) {
                             self->OnAnswer(one, status);
                           });
  if (const auto* complete = std::get_if<v1::CompleteRequest>(&request_)) {
    core_->calls->async()->Complete(&one->context, complete, &one->completed, std::move(answered));
  } else {
    core_->calls->async()->Fail(&one->context, &std::get<v1::FailRequest>(request_), &one->failed,
                                std::move(answered));
  }
}

void Recorder::OnAnswer(const std::shared_ptr<Try>& one, const grpc::Status& status) {
  {
    const std::lock_guard lock(mu_);
    current_ = nullptr;
    if (is_ending_) return;  // abandoned meanwhile
  }
  const bool is_complete = std::holds_alternative<v1::CompleteRequest>(request_);
  const grpc::Status checked = CheckAnswer(
      status, is_complete ? one->completed.has_finish_time() : one->failed.has_finish_time());
  if (!checked.ok()) {
    OnFailure(FailureOf(checked, one->context));
    return;
  }
  Recorded recorded;
  recorded.finish_time =
      FromProto(is_complete ? one->completed.finish_time() : one->failed.finish_time());
  recorded.without_body = has_omitted_;
  End(recorded);
}

void Recorder::OnFailure(const CallFailure& failure) {
  auto pause = std::chrono::milliseconds(0);
  if (failure.code() == grpc::StatusCode::UNAUTHENTICATED) {
    if (std::exchange(has_refreshed_, true)) return End(failure.error);
    CallHook(core_->options.hooks.refresh_credentials);
  } else if (IsTooLarge(failure)) {
    if (!OmitBodyOnce()) return End(failure.error);
  } else if (may_be_early_ && (failure.error.kind == ErrorKind::kRecordNotFound ||
                               failure.error.kind == ErrorKind::kLeaseLost)) {
    may_be_early_ = false;
    pause = kLateLook;
  } else if (!IsWorthRecordingAgain(failure)) {
    return End(failure.error);
  } else {
    pause = backoff_.Next(failure.retry_after);
  }
  const auto now = BootClock::now();
  if (now >= give_up_at_) {
    Error error = failure.error;
    error.kind = ErrorKind::kOutcomeNotRecorded;
    return End(std::move(error));
  }
  const bool is_complete = std::holds_alternative<v1::CompleteRequest>(request_);
  CallHook(core_->options.hooks.on_retry, is_complete ? "Complete" : "Fail", failure.error);
  core_->timers.At(std::min(After(now, pause), give_up_at_),
                   [self = shared_from_this()] { self->StartTry(); });
}

bool Recorder::OmitBodyOnce() {
  if (std::exchange(has_omitted_, true)) return false;
  if (auto* complete = std::get_if<v1::CompleteRequest>(&request_)) {
    return OmitBody(complete->mutable_outcome());
  }
  v1::Failure* const failure = std::get<v1::FailRequest>(request_).mutable_failure();
  return failure->has_outcome() && OmitBody(failure->mutable_outcome());
}

void Recorder::End(RecordResult result) {
  {
    const std::lock_guard lock(mu_);
    if (std::exchange(is_ending_, true)) return;
  }
  if (const Error* error = std::get_if<Error>(&result)) CallHook(on_lost_, *error);
  {
    const std::lock_guard lock(mu_);
    result_ = std::move(result);
    ended_.notify_all();
  }
  core_->recorders.Remove(shared_from_this());
}

std::optional<RecordResult> Recorder::Await(const Caller& caller, std::chrono::milliseconds grace) {
  const auto until_grace = After(BootClock::now(), grace);
  std::unique_lock lock(mu_);
  const auto has_ended = [this] { return result_.has_value(); };
  ended_.wait_for(lock, until_grace - BootClock::now(), has_ended);
  while (!has_ended() && !caller.IsGone()) {
    // Woken by the end or the cancellation; otherwise by the deadline.
    ended_.wait_for(lock, caller.cancel(), caller.deadline() - BootClock::now(), has_ended);
  }
  return result_;
}

void Recorder::Abandon() {
  // First of all, so that no other try is started, and this one's answer is not taken for a
  // failure.
  End(MakeError(ErrorKind::kOutcomeNotRecorded,
                "the client was destroyed before the service had recorded it"));
  std::shared_ptr<Try> current;
  {
    const std::lock_guard lock(mu_);
    current = current_;
  }
  if (current != nullptr) current->context.TryCancel();
}

void RecorderSet::Add(const std::shared_ptr<Recorder>& recorder) {
  const std::lock_guard lock(mu_);
  recorders_.insert(recorder);
}

void RecorderSet::Remove(const std::shared_ptr<Recorder>& recorder) {
  const std::lock_guard lock(mu_);
  recorders_.erase(recorder);
  if (recorders_.empty()) changed_.notify_all();
}

size_t RecorderSet::size() {
  const std::lock_guard lock(mu_);
  return recorders_.size();
}

bool RecorderSet::AwaitEmpty(std::chrono::milliseconds span) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, span, [this] { return recorders_.empty(); });
}

void RecorderSet::AbandonAll() {
  std::set<std::shared_ptr<Recorder>> left;
  {
    const std::lock_guard lock(mu_);
    left.swap(recorders_);
  }
  for (const std::shared_ptr<Recorder>& recorder : left) recorder->Abandon();
}

}  // namespace idempotency::client
