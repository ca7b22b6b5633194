// What the calls of one Client share. Internal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/caller.h"
#include "client/cpp/src/calls_in_flight.h"
#include "client/cpp/src/recorder.h"
#include "client/cpp/src/timers.h"
#include "idempotency/client/client.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::client {

// Thread-safe. Outlives the Client as long as a callback of gRPC holds on to it.
struct Core {
  Core(const Channels& client_channels, ClientOptions client_options)
      : options(std::move(client_options)),
        channels(client_channels),
        calls(v1::IdempotencyService::NewStub(channels.calls)),
        waits(v1::IdempotencyService::NewStub(channels.waits)) {}

  const ClientOptions options;
  const Channels channels;
  const std::unique_ptr<v1::IdempotencyService::Stub> calls;
  const std::unique_ptr<v1::IdempotencyService::Stub> waits;
  // Those with a callback; the others' callers are still there.
  const std::shared_ptr<CallsInFlight> calls_in_flight = std::make_shared<CallsInFlight>();
  RecorderSet recorders;
  Timers timers;
  std::atomic<uint64_t> unprotected_runs{0};
};

// Calls a hook, if there is one. What it throws is dropped: no hook may cost an outcome.
template <typename Hook, typename... Arguments>
void CallHook(const Hook& hook, Arguments&&... arguments) {
  if (!hook) return;
  try {
    hook(std::forward<Arguments>(arguments)...);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

// One try of a call, synchronously.
using TryCall = std::function<grpc::Status(grpc::ClientContext*)>;

// How a call is repeated.
struct RepeatPlan {
  const char* rpc = "";
  // No try begins after that.
  BootClock::time_point give_up_at;
  // What a try may take beyond rpc_timeout.
  std::chrono::milliseconds wait{0};
  // If given: a try that failed while this channel had no connection, before and after, counts as
  // never sent.
  grpc::ChannelInterface* channel = nullptr;
  // `fn` may run unprotected because of what is found out. No try begins before it is known whether
  // the channel has a connection; one that counts as never sent was watched all the time; and the
  // last one has a moment, since one that is cut off says nothing. REQUIRES: channel.
  bool must_be_certain = false;
};

// What is known of the tries of one call.
struct Tries {
  // One of those that failed may have changed the record.
  bool may_have_effect = false;
  // Each failed without effect because the service was away: it was never sent, or refused with
  // an IsAwayReason.
  bool was_service_away = true;
  // There was one at all.
  bool was_tried = false;
  // There are no more because none can begin before give_up_at.
  bool is_time_over = false;
};

// Tries `call` until it is answered, refused for good, the caller is gone, or give_up_at has
// passed. Returns the last failure, nullopt after a success; adds to `*tries`.
std::optional<CallFailure> Repeat(const Core& core, const Caller& caller, const RepeatPlan& plan,
                                  const TryCall& call, Tries* tries);

// `status`, or INTERNAL if it is OK and the answer lacks what every answer has. gRPC reports OK,
// and leaves the message empty, when it cannot parse what came.
grpc::Status CheckAnswer(const grpc::Status& status, bool is_whole);

}  // namespace idempotency::client
