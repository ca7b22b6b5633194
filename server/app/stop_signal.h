// SIGTERM and SIGINT: the first asks for a graceful end, the second is obeyed at once.
#pragma once

#include <memory>

#include "server/base/mutex.h"

namespace idempotency {

// One for a process, made in main before any other thread: threads inherit that the signals are
// blocked. A thread of its own takes them. Thread-safe.
class StopSignal {
 public:
  // The second signal ends the process with status 1, whatever it is doing.
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns after the first signal.
  void Wait();
  bool Arrived();

 private:
  struct State {
    Mutex mu;
    CondVar changed;
    bool arrived ABSL_GUARDED_BY(mu) = false;
  };
  // Shared with the thread, which lives as long as the process.
  const std::shared_ptr<State> state_;
};

}  // namespace idempotency
