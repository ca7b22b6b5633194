// Threads of which one runs at a time, and which one is decided by whoever calls Run: so what they
// do together can be repeated step by step.
//
// An actor runs from Run to its next Yield, or to its end; then Run returns. Actors need no locks
// against each other, and a lock that one holds while it yields would stop the others for ever.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

namespace idempotency {

// For one thread, but for Yield.
class Turns {
 public:
  Turns() = default;
  // REQUIRES: every actor has ended.
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // A new actor, which waits for its first turn. Returns its number.
  size_t Add(std::function<void()> body);
  // REQUIRES: it has not ended.
  void Run(size_t actor);
  bool HasEnded(size_t actor) const { return actors_[actor]->ended; }

  // By an actor: gives the turn back and waits for the next one. By any other thread: nothing.
  static void Yield();

 private:
  struct Actor {
    std::binary_semaphore may_run{0};
    std::binary_semaphore gave_back{0};
    bool ended = false;
    std::thread thread;
  };

  static thread_local Actor* current_;
  std::vector<std::unique_ptr<Actor>> actors_;
};

}  // namespace idempotency
