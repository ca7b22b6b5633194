// Complete and Fail until it is known whether they are recorded. Internal.
//
// Detached from the caller: calls go out by gRPC's callback API, repeats by the client's thread,
// and the caller may wait for the end or leave. Every repeat has identical bytes, unless the server
// finds the body too large: then the outcome is recorded again by the body's size and digest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "client/cpp/src/backoff.h"
#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/caller.h"
#include "grpcpp/client_context.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::client {

struct Core;

struct Recorded {
  std::chrono::system_clock::time_point finish_time;
  bool without_body = false;
};
using RecordResult = std::variant<Recorded, Error>;

// Thread-safe. Held by shared_ptr: its callbacks, the RecorderSet and the caller share it.
class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  using Request = std::variant<v1::CompleteRequest, v1::FailRequest>;

  // `on_lost` is called once if it ends unrecorded, before any waiter is told; may be null.
  // `may_be_early`: the attempt's Begin may still be on its way, perhaps through another replica,
  // so that a refusal because the service does not know the attempt is looked at once more.
  Recorder(std::shared_ptr<Core> core, Request request, std::function<void(const Error&)> on_lost,
           bool may_be_early);

  // Once. Begins the first try and returns at once. Repeats for record_timeout from now.
  void Start();

  // Until it has ended, or the caller is gone and `grace` has passed. nullopt: it goes on.
  std::optional<RecordResult> Await(const Caller& caller, std::chrono::milliseconds grace);

  // Ends it as not recorded, unless it has ended. Its callback may still come.
  void Abandon();

 private:
  // One call. Kept by its callback until gRPC has let go of it.
  struct Try {
    grpc::ClientContext context;
    v1::CompleteResponse completed;
    v1::FailResponse failed;
  };

  void StartTry();
  void OnAnswer(const std::shared_ptr<Try>& one, const grpc::Status& status);
  void OnFailure(const CallFailure& failure);
  void End(RecordResult result);
  bool OmitBodyOnce();

  const std::shared_ptr<Core> core_;
  const std::function<void(const Error&)> on_lost_;
  const BootClock::time_point give_up_at_;

  // Of the try that is under way: one at a time, so they need no lock.
  Request request_;
  Backoff backoff_;
  bool has_refreshed_ = false;
  bool has_omitted_ = false;
  bool may_be_early_;

  std::mutex mu_;  // guards what follows
  std::condition_variable_any ended_;
  bool is_ending_ = false;
  std::shared_ptr<Try> current_;
  std::optional<RecordResult> result_;
};

// The Recorders of a Client that have not ended. Thread-safe.
class RecorderSet {
 public:
  void Add(const std::shared_ptr<Recorder>& recorder);
  void Remove(const std::shared_ptr<Recorder>& recorder);
  size_t size();
  // Returns whether all had ended within that time.
  bool AwaitEmpty(std::chrono::milliseconds span);
  // Abandons those that are left.
  void AbandonAll();

 private:
  std::mutex mu_;  // guards what follows
  std::condition_variable changed_;
  std::set<std::shared_ptr<Recorder>> recorders_;
};

}  // namespace idempotency::client
