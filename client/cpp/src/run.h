// One RunOnce, from its Begin to its record. Internal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/caller.h"
#include "client/cpp/src/core.h"
#include "client/cpp/src/lease_keeper.h"
#include "client/cpp/src/recorder.h"
#include "client/cpp/src/work_end.h"
#include "idempotency/client/runner.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::client {

// For one thread, once.
class Run {
 public:
  // The references outlive the Run. REQUIRES: there is no FaultOf them.
  Run(std::shared_ptr<Core> core, const Key& key, const Request& request,
      OnLeaseExpiry on_lease_expiry, const RunOptions& options);

  RunResult Execute(const Work& fn);

 private:
  // An answer that ends the call before `fn`, or nullopt: response_ is a `started` whose lease_ is
  // good, or away_ says why `fn` may run unprotected.
  std::optional<RunResult> Begin();
  std::optional<CallFailure> BeginOnce(BootClock::time_point wait_end,
                                       BootClock::time_point give_up_at);
  // As Begin.
  std::optional<RunResult> OnFailed(const CallFailure& failure);
  std::optional<RunResult> OnStarted(BootClock::time_point give_up_at);
  std::optional<CallFailure> RenewOnce(BootClock::time_point give_up_at);
  v1::RenewRequest NewRenewRequest() const;

  // `fn` will not run: releases the key if the service may have started this attempt.
  RunResult GiveUp(Error error);
  void ReleaseInBackground(bool may_be_early);

  // Runs `fn` under the lease.
  WorkEnd DoWork(const Work& fn);
  RunResult DoUnprotected(const Work& fn);
  // With `keeper` behind it, which is started and ended.
  WorkEnd DoKept(const Work& fn, Attempt attempt, const std::shared_ptr<LeaseKeeper>& keeper);
  RunResult Record(WorkEnd end);
  Recorder::Request RecordRequestOf(const WorkResult& work) const;

  const std::shared_ptr<Core> core_;
  const Key& key_;
  const RunOptions& options_;
  const Caller caller_;
  const std::optional<std::string> attempt_id_;
  v1::BeginRequest request_;
  v1::BeginResponse response_;
  Lease lease_;
  // may_have_effect: the service may have started this attempt.
  Tries tries_;
  std::optional<Error> away_;
};

}  // namespace idempotency::client
