// Begin, Complete, Fail, Renew and Lookup without transport: what rpc/ calls and what stands above
// Store.
//
// A call is queued in a lane chosen by its key and answered by one callback, exactly once, from a
// lane's thread (or, for a call that is refused at the door, before the function returns).
// Callbacks must not block. Thread-safe.
//
// The guarantees that callers of this class may rely on:
//  - A Complete or Fail that was accepted is executed, whatever becomes of its caller or its
//    deadline, also while the engine drains. Begin, Lookup and Renew whose caller left or whose
//    deadline passed are dropped before SQL, never after.
//  - At most one write per key and batch; further Begins of a key are answered from the first one's
//    row.
//  - Every queue is bounded in items and bytes; a quarter of each is reserved for Complete, Fail
//    and Renew, and those go first. What does not fit is answered kOverloaded at once.
//  - A replay of a record that was read here within cache_max_age is answered before the function
//    returns, without the database: also when it is away, and past every bound.
//  - A Begin that waits is decided again when its record changes through whichever replica, when
//  the
//    lease is over, and when its wait ends; waiting writes nothing. While the database is away it
//    waits on, and is answered kStoreUnavailable if that is still so at its end.
//  - A call whose row another transaction holds is tried again beside its lane (a Complete or Fail
//    also in it, when there is no room beside it): a Begin or Renew until its deadline, a Complete
//    or Fail for 30 s; then it is answered kStoreUnavailable.
//  - A Complete or Fail that ends unrecorded by a fault is never without a trace: either its caller
//    was still there to be told, or it is reported (EngineEvents::OnGivenUp).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/base/trace_id.h"
#include "server/record/decide.h"
#include "server/record/limit.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

struct EngineOptions {
  Policy policy;
  int lanes = 2;  // docs/adr/0022 has what one brings
  size_t batch_max_items = 256;
  size_t batch_max_bytes = 4 * kMiB;
  // Of outcomes in the answers of one batch, which are all held until the last one is read.
  size_t batch_max_answer_bytes = 16 * kMiB;
  // Over all lanes together; each lane has its share.
  size_t queue_max_items = 8192;
  size_t queue_max_bytes = 64 * kMiB;
  size_t calls_in_flight_max = 16384;
  // Waits: at most half of the calls in flight, and at most this many of one merchant and for one
  // key. Half of them are left to other merchants, however many one has.
  size_t waits_max = 4096;
  size_t waits_per_merchant_max = 2048;
  size_t waits_per_key_max = 256;
  // Final records kept in memory for their replays; 0: none.
  size_t cache_max_bytes = 64 * kMiB;
  // How long one answers before it is read again. Below the ten minutes for which expiry pauses
  // after a jump of the database's clock.
  absl::Duration cache_max_age = absl::Seconds(60);

  absl::Duration sweep_interval = absl::Minutes(1);
  absl::Duration sweep_grace = absl::Minutes(5);
  absl::Duration purge_interval = absl::Minutes(1);
  // Unsettled records older than this are deleted (never with HOLD). Infinite: never. Above zero;
  // the settings' bounds keep it at 90 days or more, but in tests.
  absl::Duration purge_unsettled_after = absl::InfiniteDuration();
  int64_t maintenance_step_blocks = 256;
  absl::Duration maintenance_pause = absl::Milliseconds(5);  // between two steps
};

// What the engine must know of a call's caller.
struct CallTerms {
  // On Clock::BootTime's scale.
  absl::Duration deadline;
  // When the call came in, on the same scale.
  absl::Duration received;
  // How long a Begin may wait for another attempt's outcome; zero: answer at once. At most
  // kMaxWait.
  absl::Duration wait;
  // Set by rpc/ when the caller is gone; may be null.
  std::shared_ptr<const std::atomic<bool>> caller_left;
  // For what is reported of the call.
  TraceId trace;
};

using BeginDone = absl::AnyInvocable<void(absl::StatusOr<BeginResult>) &&>;
using OwnerDone = absl::AnyInvocable<void(absl::StatusOr<OwnerResult>) &&>;
using LookupDone = absl::AnyInvocable<void(absl::StatusOr<LookupResult>) &&>;

// What the engine reports as it happens; the implementation logs. Called from lane threads; must be
// quick. `trace` is that of the call which met it.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  virtual void OnTakeover(const Record& record, const TraceId& trace) = 0;
  virtual void OnResume(const Record& record, const TraceId& trace) = 0;
  // A Complete or Fail that was refused: evidence. `result.record` may be null.
  virtual void OnRefusedOutcome(const OwnerItem& item, const OwnerResult& result,
                                const TraceId& trace) = 0;
  // A Complete or Fail that was accepted and ended by a fault, unrecorded or unknown whether
  // recorded: its row stayed locked, or its caller had left and was not told. `item.answer` is set.
  virtual void OnGivenUp(const OwnerItem& item, const absl::Status& why, const TraceId& trace) = 0;
  virtual void OnSwept(const SweptRecord& swept) = 0;
  virtual void OnPurgedUnsettled(const SweptRecord& purged) = 0;
  virtual void OnMaintenanceFailed(const absl::Status& status) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual void Begin(BeginItem item, CallTerms terms, BeginDone done) = 0;
  virtual void Owner(OwnerItem item, CallTerms terms, OwnerDone done) = 0;
  virtual void Lookup(LookupItem item, CallTerms terms, LookupDone done) = 0;

  // Somebody's connection is on this database. Replays of what was read in another history of
  // commits end at once, and not only when a lane comes to see it itself.
  virtual void ObserveDatabase(const DatabaseIdentity& identity) = 0;

  // Refuses new calls with kDraining, answers waits `in_progress`, and returns when everything
  // accepted has been answered. Calls that are accepted before Drain are executed. Idempotent.
  // Not from a callback: it waits for callbacks to return. A Complete whose row is locked by
  // another transaction may hold it up for 30 s.
  virtual void Drain() = 0;
};

// Starts the lanes and the sweeper; the destructor drains and stops them. `clock`, `metrics` and
// `events` must outlive it.
std::unique_ptr<Engine> MakeEngine(const EngineOptions& options, const StoreFactory& stores,
                                   Clock* clock, Metrics* metrics, EngineEvents* events);

}  // namespace idempotency
