// An engine that answers as a test tells it to.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/record/fault.h"

namespace idempotency {

// Thread-safe. Holds every call until the test takes it; at the end what was never taken is
// answered kCancelled.
class FakeEngine : public Engine {
 public:
  struct BeginCall {
    BeginItem item;
    CallTerms terms;
    BeginDone done;
  };
  struct OwnerCall {
    OwnerItem item;
    CallTerms terms;
    OwnerDone done;
  };
  struct LookupCall {
    LookupItem item;
    CallTerms terms;
    LookupDone done;
  };

  ~FakeEngine() override { Drain(); }

  void Begin(BeginItem item, CallTerms terms, BeginDone done) override {
    Push(&begins_, BeginCall{std::move(item), std::move(terms), std::move(done)});
  }
  void Owner(OwnerItem item, CallTerms terms, OwnerDone done) override {
    Push(&owners_, OwnerCall{std::move(item), std::move(terms), std::move(done)});
  }
  void Lookup(LookupItem item, CallTerms terms, LookupDone done) override {
    Push(&lookups_, LookupCall{std::move(item), std::move(terms), std::move(done)});
  }
  void ObserveDatabase(const DatabaseIdentity&) override {}
  void Drain() override {
    const absl::Status left = MakeFault(Fault::kCancelled, "the test is over");
    while (auto call = TryTake(&begins_)) std::move(call->done)(left);
    while (auto call = TryTake(&owners_)) std::move(call->done)(left);
    while (auto call = TryTake(&lookups_)) std::move(call->done)(left);
  }

  // The oldest call that was not taken; waits for one.
  BeginCall TakeBegin() { return Take(&begins_); }
  OwnerCall TakeOwner() { return Take(&owners_); }
  LookupCall TakeLookup() { return Take(&lookups_); }
  // Whether no call is held.
  bool IsIdle() {
    MutexLock lock(&mu_);
    return begins_.empty() && owners_.empty() && lookups_.empty();
  }

 private:
  template <typename Call>
  void Push(std::deque<Call>* calls, Call call) {
    {
      MutexLock lock(&mu_);
      calls->push_back(std::move(call));
    }
    arrived_.NotifyAll();
  }
  template <typename Call>
  Call Take(std::deque<Call>* calls) {
    MutexLock lock(&mu_);
    while (calls->empty()) arrived_.Wait(&mu_);
    Call call = std::move(calls->front());
    calls->pop_front();
    return call;
  }
  template <typename Call>
  std::optional<Call> TryTake(std::deque<Call>* calls) {
    MutexLock lock(&mu_);
    if (calls->empty()) return std::nullopt;
    std::optional<Call> call(std::move(calls->front()));
    calls->pop_front();
    return call;
  }

  Mutex mu_;
  CondVar arrived_;
  std::deque<BeginCall> begins_;
  std::deque<OwnerCall> owners_;
  std::deque<LookupCall> lookups_;
};

}  // namespace idempotency
