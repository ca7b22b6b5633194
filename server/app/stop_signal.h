// SIGTERM and SIGINT: the first asks for a graceful end, the second is obeyed at once.
#pragma once

#include <functional>
#include <memory>

#include "server/base/mutex.h"

namespace idempotency {

// One for a process, made in main before any other thread: threads inherit that the signals are
// blocked. A thread of its own takes them. Thread-safe.
class StopSignal {
 public:
  // The second signal ends the process, whatever it is doing, with ExitCode::kSecondInterrupt or
  // kSecondTerminate.
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Returns after the first signal.
  void Wait();
  bool Arrived();

  // While it lives, the second signal calls `last_words` before it ends the process, and waits for
  // it a quarter of a second at most: to write what is queued, not to finish work. Called from a
  // thread of its own; the destructor waits while it runs. One at a time.
  class LastWords {
   public:
    LastWords(StopSignal* stop, std::function<void()> last_words);
    ~LastWords();
    LastWords(const LastWords&) = delete;
    LastWords& operator=(const LastWords&) = delete;

   private:
    StopSignal* const stop_;
  };

 private:
  struct State {
    Mutex mu;
    CondVar changed;
    bool arrived ABSL_GUARDED_BY(mu) = false;
    std::function<void()> last_words ABSL_GUARDED_BY(mu);
    bool is_speaking ABSL_GUARDED_BY(mu) = false;
  };
  static void SpeakLastWords(const std::shared_ptr<State>& state);

  // Shared with the thread, which lives as long as the process.
  const std::shared_ptr<State> state_;
};

}  // namespace idempotency
