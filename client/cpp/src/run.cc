#include "client/cpp/src/run.h"

#include <algorithm>
#include <utility>

#include "client/cpp/src/attempt_id.h"
#include "client/cpp/src/convert.h"
#include "client/cpp/src/unprotected.h"

namespace idempotency::client {
namespace {

// The server counts a longer wait as this one; a caller that wants more is asked for again.
constexpr std::chrono::milliseconds kLongestWait = std::chrono::seconds(30);
// How long a caller that is gone is still kept for the record: usually it takes milliseconds, and
// then the caller gets the true answer.
constexpr std::chrono::milliseconds kRecordGrace = std::chrono::seconds(1);
// A service that asks for less, or for nothing, is not asked in a busy loop.
constexpr std::chrono::milliseconds kShortestRetry{10};
// The text of a UUID.
constexpr size_t kDownstreamKeySize = 36;

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
  if (!attempt_id_.has_value()) {
    return MakeError(ErrorKind::kInternal, "the system gave no random bytes for an attempt id");
  }
  if (std::optional<RunResult> end = Begin()) return *std::move(end);
  return away_.has_value() ? DoUnprotected(fn) : Record(DoWork(fn));
}

std::optional<RunResult> Run::Begin() {
  const auto wait_end = After(BootClock::now(), options_.wait_timeout);
  const auto give_up_at = After(wait_end, options_.start_timeout);
  for (;;) {
    if (caller_.IsGone()) return GiveUp(GoneError(caller_.WhyGone()));
    if (const auto failure = BeginOnce(wait_end, give_up_at)) return OnFailed(*failure);
    if (response_.has_started()) return OnStarted(give_up_at);
    if (response_.has_replay()) {
      if (auto replayed = ReplayedOf(response_)) return *std::move(replayed);
    }
    if (!response_.has_in_progress()) {
      tries_.may_have_effect = true;
      return GiveUp(MakeError(ErrorKind::kInternal,
                              "the service's answer to Begin is none that this client knows"));
    }
    // Another attempt owns the work, so ours does not. It is asked again if the service ended the
    // wait early, which it may when it holds too many.
    tries_.may_have_effect = false;
    tries_.was_service_away = false;
    InProgress in_progress = InProgressOf(response_);
    const auto next = After(BootClock::now(), std::max(in_progress.retry_after, kShortestRetry));
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
  plan.must_be_certain = options_.on_unavailable == OnUnavailable::kRunUnprotected;
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
      &tries_);
}

std::optional<RunResult> Run::OnFailed(const CallFailure& failure) {
  if (caller_.IsGone()) return GiveUp(GoneError(caller_.WhyGone()));
  if (options_.on_unavailable == OnUnavailable::kRunUnprotected && tries_.is_time_over &&
      tries_.was_tried && tries_.was_service_away) {
    away_ = failure.error;
    return std::nullopt;
  }
  // The service knows this attempt as one that was started, or cannot tell us whether it does (it
  // may have run the call twice): what never began is said not to have happened. If the attempt is
  // none of the record's, that changes nothing.
  const bool is_over = failure.error.kind == ErrorKind::kLeaseLost ||
                       failure.error.kind == ErrorKind::kNeedsResolution;
  if (is_over && !tries_.may_have_effect) ReleaseInBackground(/*may_be_early=*/false);
  return GiveUp(failure.error);
}

std::optional<RunResult> Run::OnStarted(BootClock::time_point give_up_at) {
  tries_.may_have_effect = true;
  const v1::Started& started = response_.started();
  if (started.attempt_id() != *attempt_id_) {
    return GiveUp(MakeError(ErrorKind::kInternal, "the service started another attempt than ours"));
  }
  // A partner that gets an empty key, say, pays each time it is asked.
  if (!started.has_lease_remaining() || response_.record_id().empty() ||
      started.attempt_number() < 1 || started.downstream_key().size() != kDownstreamKeySize) {
    return GiveUp(
        MakeError(ErrorKind::kInternal, "the service's start of the attempt is not whole"));
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

v1::RenewRequest Run::NewRenewRequest() const {
  auto request = OwnerRequestOf<v1::RenewRequest>(key_, *attempt_id_);
  if (request_.has_lease_duration()) *request.mutable_lease_duration() = request_.lease_duration();
  return request;
}

std::optional<CallFailure> Run::RenewOnce(BootClock::time_point give_up_at) {
  const v1::RenewRequest request = NewRenewRequest();
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
      &tries_);
  if (!failure.has_value()) lease_.remaining = FromProto(response.lease_remaining());
  return failure;
}

RunResult Run::GiveUp(Error error) {
  if (tries_.may_have_effect) ReleaseInBackground(/*may_be_early=*/true);
  return error;
}

void Run::ReleaseInBackground(bool may_be_early) {
  if (core_->recorders.size() >= core_->options.max_background_records) return;
  const auto nothing =
      WorkResult::NotApplied("NOT_BEGUN", "the caller gave up before the work began");
  std::make_shared<Recorder>(core_, RecordRequestOf(nothing), nullptr, may_be_early)->Start();
}

WorkEnd Run::DoWork(const Work& fn) {
  const auto keeper = std::make_shared<LeaseKeeper>(core_, NewRenewRequest(), lease_,
                                                    After(BootClock::now(), options_.max_duration),
                                                    caller_.deadline());
  Attempt attempt = AttemptOf(response_);
  attempt.lease_remaining = [keeper] { return keeper->Remaining(); };
  return DoKept(fn, std::move(attempt), keeper);
}

RunResult Run::DoUnprotected(const Work& fn) {
  // Before the work, so that a crash in it does not hide that it ran.
  TellUnprotected(core_.get(), key_, *away_);
  const auto keeper = std::make_shared<LeaseKeeper>(core_, v1::RenewRequest(), std::nullopt,
                                                    After(BootClock::now(), options_.max_duration),
                                                    caller_.deadline());
  return UnprotectedResult(DoKept(fn, UnprotectedAttempt(), keeper), *std::move(away_));
}

WorkEnd Run::DoKept(const Work& fn, Attempt attempt, const std::shared_ptr<LeaseKeeper>& keeper) {
  attempt.stop = keeper->token();
  attempt.stop_reason = [keeper] { return keeper->reason(); };
  keeper->Start();
  WorkEnd end = [&] {
    const std::stop_callback on_cancel(caller_.cancel(),
                                       [&keeper] { keeper->Stop(StopReason::kCancelled); });
    return CallWork(fn, attempt, options_);
  }();
  keeper->End();
  return end;
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

RunResult Run::Record(WorkEnd end) {
  // By value: the caller may be gone by then.
  auto on_lost = [core = core_.get(), key = key_, end](const Error& error) {
    CallHook(core->options.hooks.on_outcome_not_recorded, key, end.result,
             UnrecordedError(error, end));
  };
  const auto recorder = std::make_shared<Recorder>(core_, RecordRequestOf(end.result),
                                                   std::move(on_lost), /*may_be_early=*/false);
  recorder->Start();
  std::optional<RecordResult> result = recorder->Await(caller_, kRecordGrace);
  if (!result.has_value()) {
    Error error = MakeError(ErrorKind::kOutcomeNotRecorded,
                            "the caller has left; what the work came to is still being recorded");
    error.still_recording = true;
    return UnrecordedError(std::move(error), std::move(end));
  }
  if (Error* error = std::get_if<Error>(&*result)) {
    return UnrecordedError(std::move(*error), std::move(end));
  }
  const auto& recorded = std::get<Recorded>(*result);
  return RecordedResult(std::move(end),
                        {response_.record_id(), response_.started().attempt_number(),
                         recorded.finish_time, recorded.without_body});
}

}  // namespace idempotency::client
