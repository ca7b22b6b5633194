// A Runner in memory, for tests of code that uses RunOnce. No server, no clock, no threads.
//
// It answers as the service does: replays, key reuse, attempts that ended unknown, HOLD, waiting
// for another thread's outcome, NotApplied that frees the key. It has no leases that run out and
// nothing expires; to see the real thing run `idempotencyd dev --ephemeral` and use Client.
#pragma once

#include <cstdint>
#include <memory>

#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

// Thread-safe.
class FakeRunner : public Runner {
 public:
  FakeRunner();
  ~FakeRunner() override;
  FakeRunner(const FakeRunner&) = delete;
  FakeRunner& operator=(const FakeRunner&) = delete;

  // The next RunOnce answers this error before `fn` runs, as if the service were away, say. With
  // OnUnavailable::kRunUnprotected `fn` runs unprotected instead, if the error is a kUnavailable
  // after which a Client would do so: one without a reason stands for calls that were never sent.
  void FailNextStart(Error error);
  // What the next `fn` comes to is not recorded: kOutcomeNotRecorded, and the attempt ends unknown.
  void LoseNextRecord();
  // As if a process had died in `fn`: the key has an attempt that ended unknown.
  void CrashAttempt(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry);

  // How often `fn` ran unprotected so far.
  [[nodiscard]] uint64_t unprotected_runs() const;

 private:
  RunResult DoRunOnce(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                      const Work& fn, const RunOptions& options) override;
  LookupResult DoLookup(const Key& key, bool include_body) override;

  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace idempotency::client
