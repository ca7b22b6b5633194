// A call on its way through the engine: what was asked, on which terms, and whom to answer.
//
// A call is one heap allocation, owned by one part of the engine at a time (a queue, a lane, the
// waiters, the slow lane) and moved between them as a unique_ptr, so that the pointers a batch
// hands to the store stay valid. It is answered exactly once, through Answers; a call that is
// destroyed unanswered is a bug and ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

// How long a Complete or Fail is tried while another transaction holds its row, whatever its
// deadline. Guessed: longer than a transaction of the service or of an operator's hands takes.
inline constexpr absl::Duration kFinishPatience = absl::Seconds(30);

// A waiting Begin is never decided again sooner than this.
inline constexpr absl::Duration kShortestPark = absl::Milliseconds(5);

// What calls of every kind have.
struct CallBase {
  CallBase() = default;
  CallBase(const CallBase&) = delete;
  CallBase& operator=(const CallBase&) = delete;

  bool HasLeft() const {
    return terms.caller_left != nullptr && terms.caller_left->load(std::memory_order_acquire);
  }
  bool IsPastDeadline(absl::Duration now) const { return terms.deadline <= now; }

  CallTerms terms;
  size_t hash = 0;   // of the key, made once: chooses the lane and finds repeats in a batch
  size_t bytes = 0;  // about what the call holds in memory, counted against the queue's bound
  bool answered = false;
  // Its wait for a batch: counted once, also if it comes back for another.
  bool is_queue_wait_counted = false;

 protected:
  ~CallBase();
};

struct BeginCall : CallBase {
  using Item = BeginItem;
  using Result = BeginResult;
  BeginCall(BeginItem item, CallTerms terms, BeginDone done);
  // May be dropped while nothing was sent to the database: it did not happen.
  bool IsDroppable() const { return true; }

  BeginItem item;
  BeginDone done;
  // Its neighbours in the queue of its merchant (fair_calls.h).
  BeginCall* ahead = nullptr;
  BeginCall* behind = nullptr;
  // On Clock::BootTime's scale: until then the call may be parked. In the past: answer at once.
  absl::Duration wait_ends_at = -absl::InfiniteDuration();
  // What a call that waits was told last, and when (no earlier than the reading).
  std::optional<BeginResult> told;
  absl::Duration told_at;
  // How long it is parked at the least: longer each time the database sees a lease running on that
  // by its own reading should be over.
  absl::Duration shortest_park = kShortestPark;
  // One of the replica's wait slots is this call's until it is answered.
  bool holds_wait_slot = false;
  // When it took that slot, on Clock::BootTime's scale.
  absl::Duration wait_started_at;
  // In the order of parking.
  uint64_t park_number = 0;
};

struct OwnerCall : CallBase {
  using Item = OwnerItem;
  using Result = OwnerResult;
  OwnerCall(OwnerItem item, CallTerms terms, OwnerDone done);
  // A Complete or Fail never: it may be the only evidence that money moved.
  bool IsDroppable() const { return item.IsRenew(); }

  // The row is locked: from now on the patience for it is counted. Further calls change nothing.
  void MeetLock(absl::Duration now);
  // Whether that patience is over.
  bool IsOutOfPatience(absl::Duration now) const { return give_up_at <= now; }

  OwnerItem item;
  OwnerDone done;
  // On Clock::BootTime's scale. Never, until a locked row is met.
  absl::Duration give_up_at = absl::InfiniteDuration();
};

// The `bytes` of the largest Complete or Fail that the API lets in, if an outcome's body may have
// `max_body_bytes`.
size_t LargestOwnerCallBytes(size_t max_body_bytes);

struct LookupCall : CallBase {
  using Item = LookupItem;
  using Result = LookupResult;
  LookupCall(LookupItem item, CallTerms terms, LookupDone done);
  bool IsDroppable() const { return true; }

  LookupItem item;
  LookupDone done;
  // Its neighbours in the queue of its merchant (fair_calls.h).
  LookupCall* ahead = nullptr;
  LookupCall* behind = nullptr;
};

}  // namespace idempotency
