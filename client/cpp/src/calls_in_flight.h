// The calls that gRPC has of ours and not yet let go of. Internal.
//
// Whoever lets go of a channel last ends gRPC's threads for it, and may be none of them: gRPC 1.51
// frees a queue twice when one of its threads ends itself. So a Client waits for its calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "grpcpp/support/status.h"

namespace idempotency::client {

// Thread-safe. Shared by its Client and the calls: a call may outlast a Client that waits no more.
class CallsInFlight {
 public:
  // Counts as one call for as long as it lives.
  class Call {
   public:
    explicit Call(std::shared_ptr<CallsInFlight> calls) : calls_(std::move(calls)) {
      calls_->Add();
    }
    ~Call() { calls_->Remove(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    const std::shared_ptr<CallsInFlight> calls_;
  };

  // Returns whether there were none within that time.
  bool AwaitNone(std::chrono::milliseconds span);

 private:
  void Add();
  void Remove();

  std::mutex mu_;  // guards what follows
  std::condition_variable changed_;
  size_t count_ = 0;
};

// The callback of a call that counts: from now until gRPC has destroyed it and all its copies. What
// the callback owns is gone before that.
class CountedCallback {
 public:
  CountedCallback(std::shared_ptr<CallsInFlight> calls,
                  std::function<void(const grpc::Status&)> callback)
      : call_(std::make_shared<CallsInFlight::Call>(std::move(calls))),
        callback_(std::move(callback)) {}

  void operator()(const grpc::Status& status) const { callback_(status); }

 private:
  // In this order: members are destroyed in reverse.
  std::shared_ptr<CallsInFlight::Call> call_;
  std::function<void(const grpc::Status&)> callback_;
};

}  // namespace idempotency::client
