// What a channel's connectivity says about whether a call was sent. Internal.
#pragma once

#include <chrono>

#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/caller.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"

namespace idempotency::client {

// Whether it has no connection (TRANSIENT_FAILURE), so that a call without wait-for-ready fails
// unsent. nullptr: false.
bool IsDown(grpc::ChannelInterface* channel);

// Makes the channel connect, and waits until it is known whether it has a connection. Returns false
// if it is not known by `end`, or when the caller is gone.
bool AwaitSettled(grpc::ChannelInterface* channel, const Caller& caller, BootClock::time_point end);

// Whether a channel that IsDown stays so during a try.
class DownWatch {
 public:
  // How long it can watch. A try that fails unsent does so at once; the rest is for a
  // machine that stalls.
  static constexpr std::chrono::milliseconds kSpan = std::chrono::seconds(1);

  explicit DownWatch(grpc::ChannelInterface* channel);
  // Waits until the channel has a connection again, or kSpan is over since construction: gRPC gives
  // a watch back no earlier.
  ~DownWatch();
  DownWatch(const DownWatch&) = delete;
  DownWatch& operator=(const DownWatch&) = delete;

  // Whether the channel has been down since construction, without a moment of anything else. Once.
  bool WasDownAllTheTime();

 private:
  grpc::ChannelInterface* const channel_;
  grpc::CompletionQueue queue_;
};

}  // namespace idempotency::client
