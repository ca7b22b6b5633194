#include "idempotency/client/client.h"

#include <utility>

#include "client/cpp/src/arguments.h"
#include "client/cpp/src/convert.h"
#include "client/cpp/src/core.h"
#include "client/cpp/src/run.h"

namespace idempotency::client {
namespace {

// Lookup has no options of its own; as RunOptions::start_timeout's default.
constexpr std::chrono::milliseconds kLookupTimeout = std::chrono::seconds(30);

// A cancelled call ends in a moment. The bound is for a hook that does not return.
constexpr std::chrono::milliseconds kLastCallbacks = std::chrono::seconds(10);

}  // namespace

Client::Client(Channels channels, ClientOptions options)
    : core_(std::make_shared<Core>(channels, std::move(options))) {}

Client::~Client() {
  // By way of a time point, which cannot overflow.
  (void)core_->recorders.AwaitEmpty(
      Until(After(BootClock::now(), core_->options.shutdown_timeout)));
  core_->recorders.AbandonAll();
  core_->timers.Stop();
  (void)core_->calls_in_flight->AwaitNone(kLastCallbacks);
}

RunResult Client::DoRunOnce(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                            const Work& fn, const RunOptions& options) {
  if (auto fault = FaultOf(core_->options)) return *std::move(fault);
  if (auto fault = FaultOf(key, request, on_lease_expiry, fn, options)) return *std::move(fault);
  return Run(core_, key, request, on_lease_expiry, options).Execute(fn);
}

uint64_t Client::unprotected_runs() const { return core_->unprotected_runs; }

LookupResult Client::DoLookup(const Key& key, bool include_body) {
  if (auto fault = FaultOf(core_->options)) return *std::move(fault);
  if (auto fault = FaultOf(key)) return *std::move(fault);
  v1::LookupRequest request;
  request.set_merchant_id(key.merchant_id);
  request.set_idempotency_key(key.idempotency_key);
  request.set_include_outcome(include_body);
  v1::LookupResponse response;
  Tries tries;  // of no interest: it only reads
  RepeatPlan plan;
  plan.rpc = "Lookup";
  plan.give_up_at = After(BootClock::now(), kLookupTimeout);
  const auto failure = Repeat(
      *core_, Caller(), plan,
      [&](grpc::ClientContext* context) {
        const grpc::Status status = core_->calls->Lookup(context, request, &response);
        return CheckAnswer(status, !response.record_id().empty());
      },
      &tries);
  if (failure.has_value()) return failure->error;
  return RecordOf(response);
}

}  // namespace idempotency::client
