// One thread that runs small tasks at given times: renewals, deadlines, repeats of calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "client/cpp/src/boot_clock.h"

namespace idempotency::client {

// Thread-safe. Tasks run one after the other and must not block. The project's own Mutex is not
// used in this folder: the client is built and installed without the server.
class Timers {
 public:
  using Id = std::pair<BootClock::time_point, uint64_t>;

  Timers();
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  // Runs `task` at `when`, or at once if that has passed. Never runs it inside this call. After
  // Stop it does nothing.
  Id At(BootClock::time_point when, std::function<void()> task);
  // The task will not be started any more; it may be running. An Id of a task that ran is allowed.
  void Cancel(const Id& id);
  // Runs nothing more. Returns when the task that runs has ended. Not to be called by a task.
  void Stop();

 private:
  void Loop();

  std::mutex mu_;  // guards what follows, up to the thread
  std::condition_variable changed_;
  std::map<Id, std::function<void()>> tasks_;
  uint64_t next_number_ = 0;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace idempotency::client
