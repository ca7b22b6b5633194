// RunOnce: do a piece of work once, however often it is asked for.
//
//   RunResult result = runner.RunOnce(
//       {merchant, key}, {"POST /payments", Payload{body, "application/json"}},
//       OnLeaseExpiry::kTakeOver,
//       [&](const Attempt& attempt) {
//         // Send attempt.downstream_key to the partner: it is the same for every attempt.
//         Answer answer = partner.Pay(attempt.downstream_key, order);
//         if (answer.refused) return WorkResult::FinalFailure("DECLINED", answer.words);
//         return WorkResult::Completed({201, {}, "application/json", answer.body, answer.id});
//       });
//
// Runner is the interface that application code is written against. Client (client.h) talks to the
// service; FakeRunner (fake_runner.h) lives in memory, for the application's own tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "idempotency/client/downstream_key.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

// Why `fn` is asked to stop.
enum class StopReason {
  kNone,
  // The lease is lost, or could not be renewed in time: somebody else may start the work.
  kLeaseLost,
  // RunOptions::max_duration is over.
  kMaxDuration,
  // RunOptions::cancel was requested.
  kCancelled,
  // RunOptions::deadline passed.
  kDeadline,
};

// The right to do the work, as `fn` gets it. A plain value, so that a test can make one.
struct Attempt {
  std::string record_id;
  // 1 for the first attempt of the record.
  int32_t attempt_number = 1;
  // Greater than every one granted for this key before. Hand it to systems that can refuse an older
  // one.
  int64_t fencing_token = 0;
  // A UUID, the same for all attempts of this record. Send it to the partner as its idempotency
  // key.
  std::string downstream_key;
  // How many attempts ended without a known result. Above 0: ask the partner before paying.
  int32_t unknown_attempts = 0;
  std::optional<PreviousAttempt> previous_attempt;
  // The service had started this attempt before; its answer was lost and asked for again. `fn` did
  // not run then: this client never runs it twice under one attempt.
  bool repeated = false;
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver;
  // The service is away and knows nothing of this: see OnUnavailable. There is no record, no lease
  // and no token; record_id and downstream_key are empty, attempt_number and fencing_token 0.
  bool unprotected = false;

  // Asked to stop when the lease is lost, max_duration is over, or the caller cancels or passes its
  // deadline. Begin nothing new from then on; what has been sent to a partner has been sent, and is
  // Unknown unless the partner says otherwise. Callbacks (std::stop_callback) run on the client's
  // own threads; they must not block, and what they throw ends the process, as the language has it.
  std::stop_token stop;
  // Why; kNone before that.
  std::function<StopReason()> stop_reason = [] { return StopReason::kNone; };
  // How much of the lease is left, on a clock that also counts the time a machine is suspended;
  // never negative, and without end where there is no lease. Ask right before the step that cannot
  // be undone.
  std::function<std::chrono::milliseconds()> lease_remaining = [] {
    return std::chrono::milliseconds::max();
  };

  // A key of its own for one of several partners: see downstream_key.h.
  [[nodiscard]] TextResult DownstreamKeyFor(std::string_view partner, KeyShape shape) const {
    return client::DownstreamKeyFor(downstream_key, partner, shape);
  }
};

// The work. Whatever it throws is Unknown, unless RunOptions::classify knows better.
using Work = std::function<WorkResult(const Attempt&)>;

// What a call does when start_timeout is over and the service was not there.
enum class OnUnavailable {
  // kUnavailable, and `fn` does not run.
  kFail,
  // Runs `fn` without the service: the result is Unprotected, a warning is logged, the run counted
  // and the hook told. Nothing keeps another call from doing the same work at the same time or
  // later, so this is for work that may be done twice if it must. And only if no try of this call
  // can have had an effect: each was never sent, because there was no connection, or refused with
  // STORE_UNAVAILABLE, OVERLOADED or DRAINING. After one lost answer, one time-out or one
  // in-progress the call fails as with kFail. Refused with OnLeaseExpiry::kHold.
  kRunUnprotected,
};

struct RunOptions {
  // How long the record answers, from its first Begin: 1 min to 30 days, 24 h by default, or the
  // key's own. The first call's counts.
  std::optional<std::chrono::seconds> ttl;
  // How long a crashed attempt keeps others out: 1 s to 1 h, 60 s by default. Renewed at a third of
  // it while `fn` runs, so it need not be as long as the work.
  std::optional<std::chrono::milliseconds> lease_duration;
  // If somebody else is at it: how long to wait for their outcome before answering InProgress. 0:
  // not at all.
  std::chrono::milliseconds wait_timeout{0};
  // Words for people, such as the order number: at most 16, names 1 to 32 and values up to 128
  // bytes. Shown by Lookup, never compared.
  std::map<std::string, std::string> labels;

  // How long `fn` may run. Then it is asked to stop, and the lease is no longer renewed.
  std::chrono::milliseconds max_duration = std::chrono::minutes(15);
  // How long the service is asked, over all tries, before this gives up without running `fn`.
  // wait_timeout comes on top; with kRunUnprotected also the rest of the last try, a second at
  // most.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(30);
  OnUnavailable on_unavailable = OnUnavailable::kFail;

  // The caller's own end of patience, and its cancellation. Before `fn`: it will not run. In `fn`:
  // it is asked to stop. After it: what it came to is recorded all the same; when that takes longer
  // than a second the call returns kOutcomeNotRecorded with still_recording.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::stop_token cancel;

  // What an exception of `fn` says about the work; nullptr: nothing, so kUnknown. kNotApplied only
  // for what proves that nothing happened. One that throws says kUnknown.
  std::function<FailureDisposition(const std::exception_ptr&)> classify;
};

// Thread-safe.
class Runner {
 public:
  virtual ~Runner() = default;

  // Runs `fn` on the calling thread if the work of `key` is this caller's to do, and returns what
  // is recorded. `fn` runs at most once, and not at all when the service cannot be reached, unless
  // `options` say otherwise. Throws nothing, but std::bad_alloc; what `fn` throws is in the result.
  // Do not cancel (pthread_cancel) a thread in `fn`: that is an exception which must not be caught,
  // and everything that `fn` throws is.
  [[nodiscard]] RunResult RunOnce(const Key& key, const Request& request,
                                  OnLeaseExpiry on_lease_expiry, const Work& fn,
                                  const RunOptions& options = {}) {
    return DoRunOnce(key, request, on_lease_expiry, fn, options);
  }

  // What is known about a key; kRecordNotFound if nothing is. `include_body`: the outcome's body,
  // too.
  [[nodiscard]] LookupResult Lookup(const Key& key, bool include_body = false) {
    return DoLookup(key, include_body);
  }

 protected:
  Runner() = default;

 private:
  virtual RunResult DoRunOnce(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                              const Work& fn, const RunOptions& options) = 0;
  virtual LookupResult DoLookup(const Key& key, bool include_body) = 0;
};

}  // namespace idempotency::client
