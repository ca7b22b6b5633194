// The client of the idempotency service: a Runner over gRPC.
//
//   Client client(MakeChannels({"dns:///idempotency:50051", credentials}));
//   RunResult result = client.RunOnce(…);       // see runner.h
//
// One Client for the process. It has one thread of its own, which renews leases and repeats calls;
// everything else happens on the caller's thread.
//
// What it sees to, so that callers cannot get it wrong:
// - An attempt has an id from the system's random source, kept over all tries of the same call, so
//   that a lost answer is safe to repeat.
// - Fail closed: without a `started` from the service `fn` does not run, unless the caller has
// typed
//   out OnUnavailable::kRunUnprotected and no try can have had an effect.
// - The lease is renewed at a third of it; `fn` is asked to stop when it is lost, or its local
//   deadline passes (counted from when the last accepted call was *sent*).
// - What `fn` came to is recorded whether or not the caller still waits, with identical bytes, and
//   repeated until it is known to be recorded or refused.
// - Everything that is not known is recorded as UNKNOWN.
// - A caller that gives up before `fn` ran releases the key (Fail NOT_APPLIED).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "idempotency/client/channel.h"
#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

struct Core;

// Called on the caller's or the client's threads, several at a time. Must not block; what they
// throw is ignored.
struct Hooks {
  // The work has ended and what it came to could not be recorded: the service refused it (say,
  // kLeaseLost) or could not be reached for record_timeout, or the Client was destroyed first.
  // Write it where somebody will look: money may have moved without a record.
  std::function<void(const Key&, const WorkResult&, const Error&)> on_outcome_not_recorded;
  // A call (of "Begin", "Complete", "Fail", "Renew", "Lookup") failed and is repeated. For metrics.
  std::function<void(const char* rpc, const Error&)> on_retry;
  // `fn` is about to run without the service, which was not there because of that error. Keep what
  // is needed to find out later whether it was done twice.
  std::function<void(const Key&, const Error&)> on_unprotected;
  // A call was refused as UNAUTHENTICATED and is repeated once: forget cached credentials.
  std::function<void()> refresh_credentials;
  // A line for the application's log, at level warning: one for each unprotected run, with merchant
  // and key. Without this hook it goes to std::clog.
  std::function<void(const std::string& line)> log_warning;
};

// A negative span, or no rpc_timeout, makes every call of the Client kInvalidField.
struct ClientOptions {
  // Bound of one try of a call; waits come on top.
  std::chrono::milliseconds rpc_timeout = std::chrono::seconds(5);
  // How long Complete and Fail are repeated.
  std::chrono::milliseconds record_timeout = std::chrono::minutes(5);
  // How long the destructor waits for records that are still being made in the background.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(10);
  // Records in the background. Past it a caller that gives up before `fn` ran leaves its key to its
  // lease; what `fn` came to is recorded however many there are.
  size_t max_background_records = 10'000;
  Hooks hooks;
};

// Thread-safe, but for the destructor.
class Client : public Runner {
 public:
  // REQUIRES: both channels. They may be the same, at the price that waits share its connections.
  explicit Client(Channels channels, ClientOptions options = {});

  // REQUIRES: no RunOnce or Lookup is under way. Waits up to shutdown_timeout for what is recorded
  // in the background; what is not by then is given up and reported to on_outcome_not_recorded.
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // How often `fn` ran without the service so far. For a metric with an alert on it.
  [[nodiscard]] uint64_t unprotected_runs() const;

 private:
  RunResult DoRunOnce(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                      const Work& fn, const RunOptions& options) override;
  LookupResult DoLookup(const Key& key, bool include_body) override;

  const std::shared_ptr<Core> core_;
};

}  // namespace idempotency::client
