#include "server/app/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "server/base/check.h"

namespace idempotency {

StopSignal::StopSignal() : state_(std::make_shared<State>()) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  IDEM_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0) << "signals cannot be blocked";
  std::thread([signals, state = state_] {
    int signal = 0;
    sigwait(&signals, &signal);
    {
      MutexLock lock(&state->mu);
      state->arrived = true;
    }
    state->changed.NotifyAll();
    sigwait(&signals, &signal);
    // Not exit(): that would wait for what hangs.
    _exit(1);
  }).detach();
}

void StopSignal::Wait() {
  MutexLock lock(&state_->mu);
  while (!state_->arrived) state_->changed.Wait(&state_->mu);
}

bool StopSignal::Arrived() {
  MutexLock lock(&state_->mu);
  return state_->arrived;
}

}  // namespace idempotency
