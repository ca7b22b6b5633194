// Keeps an attempt's lease while `fn` runs, and asks `fn` to stop when it must. Internal.
//
// Renew goes out a third of the lease after the last accepted Begin or Renew was sent. A Renew that
// fails is repeated until one is accepted or refused for good, also after the lease's local end:
// `fn` is told to stop by then, but as long as it has not stopped it is better that nobody else
// starts. It ends with max_duration, so that a hanging `fn` does not hold the key for ever.
//
// Without a lease (unprotected) there is nothing to renew; `fn` is asked to stop all the same.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "client/cpp/src/backoff.h"
#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/timers.h"
#include "grpcpp/client_context.h"
#include "idempotency/client/runner.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::client {

struct Core;

// What an accepted Begin or Renew gave.
struct Lease {
  BootClock::time_point sent_at;
  std::chrono::milliseconds remaining{0};

  BootClock::time_point deadline() const { return After(sent_at, remaining); }
};

// Thread-safe. Held by shared_ptr: its callbacks, and the Attempt that `fn` may have kept, share
// it.
class LeaseKeeper : public std::enable_shared_from_this<LeaseKeeper> {
 public:
  // `lease`: absent if there is none; `request` is not used then. `stop_at`: max_duration's end;
  // `caller_deadline`: when to stop with kDeadline.
  LeaseKeeper(std::shared_ptr<Core> core, v1::RenewRequest request, std::optional<Lease> lease,
              BootClock::time_point stop_at, BootClock::time_point caller_deadline);

  void Start();
  // No Renew is sent any more, one that is under way is cancelled, nothing is asked to stop.
  void End();
  // Asks to stop, for the first reason only.
  void Stop(StopReason reason);

  std::stop_token token() const { return stop_.get_token(); }
  StopReason reason();
  // Never negative. REQUIRES: there is a lease.
  std::chrono::milliseconds Remaining();

 private:
  struct Try {
    grpc::ClientContext context;
    v1::RenewResponse response;
    BootClock::time_point sent_at;
  };

  void OnTimer();
  void ScheduleLocked(BootClock::time_point now);
  void SendRenew();
  void OnAnswer(const std::shared_ptr<Try>& one, const grpc::Status& status);
  // Returns whether the credentials are to be refreshed.
  bool OnFailureLocked(const CallFailure& failure);

  const std::shared_ptr<Core> core_;
  const v1::RenewRequest request_;
  const BootClock::time_point stop_at_;
  const BootClock::time_point caller_deadline_;
  std::stop_source stop_;

  std::mutex mu_;  // guards what follows
  // Without a lease: never.
  BootClock::time_point deadline_ = BootClock::time_point::max();
  BootClock::time_point renew_at_ = BootClock::time_point::max();
  std::chrono::milliseconds third_ = std::chrono::milliseconds::max();
  Backoff backoff_{std::chrono::seconds(1)};
  bool has_refreshed_ = false;
  bool is_over_ = false;  // no Renew any more
  bool has_ended_ = false;
  StopReason reason_ = StopReason::kNone;
  std::shared_ptr<Try> current_;
  std::optional<Timers::Id> timer_;
};

}  // namespace idempotency::client
