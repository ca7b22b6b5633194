// One RunOnce, from its Begin to its record. Internal.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/caller.h"
#include "client/cpp/src/lease_keeper.h"
#include "client/cpp/src/recorder.h"
#include "idempotency/client/runner.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::client {

struct Core;

// For one thread, once.
class Run {
 public:
  // The references outlive the Run.
  Run(std::shared_ptr<Core> core, const Key& key, const Request& request,
      OnLeaseExpiry on_lease_expiry, const RunOptions& options);

  RunResult Execute(const Work& fn);

 private:
  // An answer that ends the call before `fn`, or nullopt: response_ is a `started` whose lease_ is
  // good.
  std::optional<RunResult> Begin();
  std::optional<CallFailure> BeginOnce(BootClock::time_point wait_end,
                                       BootClock::time_point give_up_at);
  std::optional<RunResult> OnStarted(BootClock::time_point give_up_at);
  std::optional<CallFailure> RenewOnce(BootClock::time_point give_up_at);

  // `fn` will not run: releases the key if the service may have started this attempt.
  RunResult GiveUp(Error error);
  void ReleaseInBackground(bool may_be_early);

  // Runs `fn` under the lease. What it throws is in exception_.
  WorkResult DoWork(const Work& fn);
  RunResult Record(WorkResult work);
  RunResult ResultOf(const Recorded& recorded, WorkResult work) const;
  Recorder::Request RecordRequestOf(const WorkResult& work) const;

  const std::shared_ptr<Core> core_;
  const Key& key_;
  const RunOptions& options_;
  const Caller caller_;
  const std::optional<std::string> attempt_id_;
  v1::BeginRequest request_;
  v1::BeginResponse response_;
  Lease lease_;
  bool may_be_started_ = false;
  std::exception_ptr exception_;
};

}  // namespace idempotency::client
