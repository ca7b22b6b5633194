#include "client/cpp/src/channel_watch.h"

#include <algorithm>

namespace idempotency::client {
namespace {

// gRPC's wait cannot be interrupted: how long a caller that cancels may have to wait for us.
constexpr std::chrono::milliseconds kLongestWait{100};

constexpr auto kDown = grpc_connectivity_state::GRPC_CHANNEL_TRANSIENT_FAILURE;

}  // namespace

bool IsDown(grpc::ChannelInterface* channel) {
  return channel != nullptr && channel->GetState(/*try_to_connect=*/false) == kDown;
}

bool AwaitSettled(grpc::ChannelInterface* channel, const Caller& caller,
                  BootClock::time_point end) {
  for (;;) {
    const auto state = channel->GetState(/*try_to_connect=*/true);
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) return true;
    if (caller.IsGone() || BootClock::now() >= end) return false;
    const auto span = std::min({kLongestWait, Until(end), Until(caller.deadline())});
    channel->WaitForStateChange(state, std::chrono::system_clock::now() + span);
  }
}

DownWatch::DownWatch(grpc::ChannelInterface* channel) : channel_(channel) {
  channel_->NotifyOnStateChange(kDown, std::chrono::system_clock::now() + kSpan, &queue_, this);
}

DownWatch::~DownWatch() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool has_changed = false;
  while (queue_.Next(&tag, &has_changed)) {
  }
}

bool DownWatch::WasDownAllTheTime() {
  if (!IsDown(channel_)) return false;
  void* tag = nullptr;
  bool has_changed = false;
  // An event: it has changed, or the span is over and what came after is not known.
  return queue_.AsyncNext(&tag, &has_changed, std::chrono::system_clock::now()) ==
         grpc::CompletionQueue::TIMEOUT;
}

}  // namespace idempotency::client
