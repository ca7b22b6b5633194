#include "client/cpp/src/run.h"

#include <algorithm>
#include <utility>

#include "client/cpp/src/attempt_id.h"
#include "client/cpp/src/convert.h"
#include "client/cpp/src/core.h"
#include "client/cpp/src/exception_result.h"

namespace idempotency::client {
namespace {

// The server counts a longer wait as this one; a caller that wants more is asked for again.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::seconds(30);
// How long a caller that is gone is still kept for the record: usually it takes milliseconds, and
// then the caller gets the true answer.
constexpr std::chrono::milliseconds kRecordGrace = std::chrono::seconds(1);

template <typename OwnerRequest>
OwnerRequest OwnerRequestOf(const Key& key, const std::string& attempt_id) {
  OwnerRequest request;
  request.set_merchant_id(key.merchant_id);
  request.set_idempotency_key(key.idempotency_key);
  request.set_attempt_id(attempt_id);
  return request;
}

}  // namespace

Run::Run(std::shared_ptr<Core> core, const Key& key, const Request& request,
         OnLeaseExpiry on_lease_expiry, const RunOptions& options)
    : core_(std::move(core)),
      key_(key),
      options_(options),
      caller_(options),
      attempt_id_(NewAttemptId()) {
  if (attempt_id_.has_value()) {
    request_ = BeginRequestOf(key, request, on_lease_expiry, options, *attempt_id_);
  }
}

RunResult Run::Execute(const Work& fn) {
  if (!fn) return MakeError(ErrorKind::kInvalidField, "fn: must be given");
  if (!attempt_id_.has_value()) {
    return MakeError(ErrorKind::kInternal, "the system gave no random bytes for an attempt id");
  }
  if (std::optional<RunResult> end = Begin()) return *std::move(end);
  return Record(DoWork(fn));
}

std::optional<RunResult> Run::Begin() {
  const auto wait_end = After(BootClock::now(), options_.wait_timeout);
  const auto give_up_at = After(wait_end, options_.start_timeout);
  for (;;) {
    if (caller_.IsGone()) return GiveUp(GoneError(caller_.WhyGone()));
    if (const auto failure = BeginOnce(wait_end, give_up_at)) {
      if (caller_.IsGone()) return GiveUp(GoneError(caller_.WhyGone()));
      // The service knows this attempt as one that was started, or cannot tell us whether it does
      // (it may have run the call twice): what never began is said not to have happened. If the
      // attempt is none of the record's, that changes nothing.
      const bool is_over = failure->error.kind == ErrorKind::kLeaseLost ||
                           failure->error.kind == ErrorKind::kNeedsResolution;
      if (is_over && !may_be_started_) ReleaseInBackground(/*may_be_early=*/false);
      return GiveUp(failure->error);
    }
    if (response_.has_started()) return OnStarted(give_up_at);
    if (response_.has_replay()) {
      if (auto replayed = ReplayedOf(response_)) return *std::move(replayed);
    }
    if (!response_.has_in_progress()) {
      may_be_started_ = true;
      return GiveUp(MakeError(ErrorKind::kInternal,
                              "the service's answer to Begin is none that this client knows"));
    }
    // Another attempt owns the work, so ours does not. It is asked again if the service ended the
    // wait early, which it may when it holds too many.
    may_be_started_ = false;
    InProgress in_progress = InProgressOf(response_);
    const auto next = After(BootClock::now(), in_progress.retry_after);
    if (next >= wait_end) return in_progress;
    caller_.SleepUntil(next);
  }
}

std::optional<CallFailure> Run::BeginOnce(BootClock::time_point wait_end,
                                          BootClock::time_point give_up_at) {
  const bool waits = options_.wait_timeout.count() > 0;
  const auto& stub = waits ? core_->waits : core_->calls;
  RepeatPlan plan;
  plan.rpc = "Begin";
  plan.give_up_at = give_up_at;
  plan.wait = std::min(Until(wait_end), kLongestWait);
  // A record on HOLD that is wrongly taken for never begun would need a person: there the release
  // is sent on the least suspicion.
  if (request_.on_lease_expiry() != v1::LEASE_EXPIRY_ACTION_HOLD) {
    plan.channel = waits ? core_->channels.waits.get() : core_->channels.calls.get();
  }
  return Repeat(
      *core_, caller_, plan,
      [&](grpc::ClientContext* context) {
        if (waits)
          ToProto(std::min(Until(wait_end), kLongestWait), request_.mutable_wait_timeout());
        response_.Clear();
        lease_.sent_at = BootClock::now();
        return stub->Begin(context, request_, &response_);
      },
      &may_be_started_);
}

std::optional<RunResult> Run::OnStarted(BootClock::time_point give_up_at) {
  may_be_started_ = true;
  const v1::Started& started = response_.started();
  if (started.attempt_id() != *attempt_id_ || !started.has_lease_remaining()) {
    return GiveUp(MakeError(ErrorKind::kInternal, "the service started another attempt than ours"));
  }
  lease_.remaining = FromProto(started.lease_remaining());
  // Over before it came here: a repeat of a Begin whose first answer was lost, or a slow way. Only
  // a Renew makes it good.
  if (Until(lease_.deadline()).count() == 0) {
    if (auto failure = RenewOnce(give_up_at)) {
      return GiveUp(caller_.IsGone() ? GoneError(caller_.WhyGone()) : failure->error);
    }
    if (Until(lease_.deadline()).count() == 0) {
      return GiveUp(MakeError(ErrorKind::kLeaseLost,
                              "the lease is shorter than the way to the service and back"));
    }
  }
  if (caller_.IsGone()) return GiveUp(GoneError(caller_.WhyGone()));
  return std::nullopt;
}

std::optional<CallFailure> Run::RenewOnce(BootClock::time_point give_up_at) {
  auto request = OwnerRequestOf<v1::RenewRequest>(key_, *attempt_id_);
  if (request_.has_lease_duration()) *request.mutable_lease_duration() = request_.lease_duration();
  v1::RenewResponse response;
  RepeatPlan plan;
  plan.rpc = "Renew";
  plan.give_up_at = give_up_at;
  auto failure = Repeat(
      *core_, caller_, plan,
      [&](grpc::ClientContext* context) {
        lease_.sent_at = BootClock::now();
        const grpc::Status status = core_->calls->Renew(context, request, &response);
        return CheckAnswer(status, response.has_lease_remaining());
      },
      &may_be_started_);
  if (!failure.has_value()) lease_.remaining = FromProto(response.lease_remaining());
  return failure;
}

RunResult Run::GiveUp(Error error) {
  if (may_be_started_) ReleaseInBackground(/*may_be_early=*/true);
  return error;
}

void Run::ReleaseInBackground(bool may_be_early) {
  if (core_->recorders.size() >= core_->options.max_background_records) return;
  const auto nothing =
      WorkResult::NotApplied("NOT_BEGUN", "the caller gave up before the work began");
  std::make_shared<Recorder>(core_, RecordRequestOf(nothing), nullptr, may_be_early)->Start();
}

WorkResult Run::DoWork(const Work& fn) {
  auto renew = OwnerRequestOf<v1::RenewRequest>(key_, *attempt_id_);
  if (request_.has_lease_duration()) *renew.mutable_lease_duration() = request_.lease_duration();
  const auto keeper = std::make_shared<LeaseKeeper>(core_, std::move(renew), lease_,
                                                    After(BootClock::now(), options_.max_duration),
                                                    caller_.deadline());
  Attempt attempt = AttemptOf(response_);
  attempt.stop = keeper->token();
  attempt.stop_reason = [keeper] { return keeper->reason(); };
  attempt.lease_remaining = [keeper] { return keeper->Remaining(); };

  keeper->Start();
  std::optional<WorkResult> result;
  {
    const std::stop_callback on_cancel(caller_.cancel(),
                                       [&keeper] { keeper->Stop(StopReason::kCancelled); });
    try {
      result = fn(attempt);
    } catch (...) {
      exception_ = std::current_exception();
    }
  }
  keeper->End();
  return result.has_value() ? *std::move(result) : ResultOfException(exception_, options_.classify);
}

Recorder::Request Run::RecordRequestOf(const WorkResult& work) const {
  if (const Outcome* outcome = work.outcome()) {
    auto complete = OwnerRequestOf<v1::CompleteRequest>(key_, *attempt_id_);
    ToProto(*outcome, complete.mutable_outcome());
    return complete;
  }
  auto fail = OwnerRequestOf<v1::FailRequest>(key_, *attempt_id_);
  ToProto(*work.failure(), fail.mutable_failure());
  return fail;
}

RunResult Run::Record(WorkResult work) {
  // By value: the caller may be gone by then.
  auto on_lost = [core = core_.get(), key = key_, work,
                  exception = exception_](const Error& error) {
    Error reported = error;
    reported.work = work;
    reported.exception = exception;
    CallHook(core->options.hooks.on_outcome_not_recorded, key, work, reported);
  };
  const auto recorder = std::make_shared<Recorder>(core_, RecordRequestOf(work), std::move(on_lost),
                                                   /*may_be_early=*/false);
  recorder->Start();
  std::optional<RecordResult> end = recorder->Await(caller_, kRecordGrace);
  if (end.has_value() && std::holds_alternative<Recorded>(*end)) {
    return ResultOf(std::get<Recorded>(*end), std::move(work));
  }
  Error error;
  if (end.has_value()) {
    error = std::get<Error>(*std::move(end));
  } else {
    error = MakeError(ErrorKind::kOutcomeNotRecorded,
                      "the caller has left; what the work came to is still being recorded");
    error.still_recording = true;
  }
  error.work = std::move(work);
  error.exception = exception_;
  return error;
}

RunResult Run::ResultOf(const Recorded& recorded, WorkResult work) const {
  const auto fill = [&](auto result) -> RunResult {
    result.recorded_without_body = recorded.without_body;
    result.record_id = response_.record_id();
    result.attempt_number = response_.started().attempt_number();
    result.finish_time = recorded.finish_time;
    return result;
  };
  if (const Outcome* outcome = work.outcome()) {
    Completed completed;
    completed.outcome = *outcome;
    return fill(std::move(completed));
  }
  Failed failed;
  failed.failure = *work.failure();
  failed.exception = exception_;
  return fill(std::move(failed));
}

}  // namespace idempotency::client
