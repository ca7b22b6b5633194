#include "server/app/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/app/exit_code.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

// Guessed: a thousand times what writing a full log queue to a file takes, and still at once to
// whoever sent the signal.
constexpr absl::Duration kLastWordsTimeout = absl::Milliseconds(250);

}  // namespace

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
    SpeakLastWords(state);
    // Not exit(): that would wait for what hangs.
    _exit(static_cast<int>(signal == SIGINT ? ExitCode::kSecondInterrupt
                                            : ExitCode::kSecondTerminate));
  }).detach();
}

void StopSignal::SpeakLastWords(const std::shared_ptr<State>& state) {
  MutexLock lock(&state->mu);
  if (state->last_words == nullptr) return;
  state->is_speaking = true;
  std::thread([state, last_words = state->last_words] {
    last_words();
    {
      MutexLock speaker_lock(&state->mu);
      state->is_speaking = false;
    }
    state->changed.NotifyAll();
  }).detach();
  const absl::Time deadline = absl::Now() + kLastWordsTimeout;
  while (state->is_speaking) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return;
    state->changed.WaitFor(&state->mu, left);
  }
}

void StopSignal::Wait() {
  MutexLock lock(&state_->mu);
  while (!state_->arrived) state_->changed.Wait(&state_->mu);
}

bool StopSignal::Arrived() {
  MutexLock lock(&state_->mu);
  return state_->arrived;
}

StopSignal::LastWords::LastWords(StopSignal* stop, std::function<void()> last_words) : stop_(stop) {
  MutexLock lock(&stop_->state_->mu);
  stop_->state_->last_words = std::move(last_words);
}

StopSignal::LastWords::~LastWords() {
  MutexLock lock(&stop_->state_->mu);
  while (stop_->state_->is_speaking) stop_->state_->changed.Wait(&stop_->state_->mu);
  stop_->state_->last_words = nullptr;
}

}  // namespace idempotency
