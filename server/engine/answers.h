// Answering a call: counts what became of it, gives its room back, and calls its caller back.
//
// Thread-safe. Call it with no lock held: the callback may call the engine again.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/fault.h"
#include "server/store/store.h"

namespace idempotency {

// Whether a refused Complete or Fail may be kept on its record: it came from one of the record's
// own attempts, as far as they are known. (A stranger's would cost the database a transaction
// each.)
bool IsEvidence(const OwnerItem& item, const OwnerResult& result);

// Nothing was done: the row stayed locked for as long as the call could be tried.
absl::Status RowIsLocked();

class Answers {
 public:
  // All must outlive this.
  Answers(Admission* admission, Clock* clock, Metrics* metrics, EngineEvents* events);

  // REQUIRES: the call was let in by Admission::EnterCall. A fault kLockTimeout, which no caller is
  // to see, is answered as kStoreUnavailable: both had no effect and ask to try again. A Complete
  // or Fail that ends with kLockTimeout, or with any fault when its caller has left, is reported as
  // given up.
  void Give(std::unique_ptr<BeginCall> call, absl::StatusOr<BeginResult> result);
  void Give(std::unique_ptr<OwnerCall> call, absl::StatusOr<OwnerResult> result);
  void Give(std::unique_ptr<LookupCall> call, absl::StatusOr<LookupResult> result);

  // As Give, for a call that was dropped from a queue: `reason` is kDeadlineExceeded or kCancelled.
  template <typename Call>
  void Drop(std::unique_ptr<Call> call, Fault reason) {
    Give(std::move(call), DropStatus(reason));
  }

  // For a call that Admission did not let in: gives back no room.
  template <typename Call>
  void Refuse(std::unique_ptr<Call> call, Fault reason) {
    call->answered = true;
    std::move(call->done)(RefusalStatus(reason));
  }

  // Counts and reports what the store itself did, before it is told: takeovers and resumes, and
  // refused Completes and Fails. Not for answers made from another call's row.
  void Report(const BeginCall& call, const BeginResult& result);
  void Report(const OwnerCall& call, const OwnerResult& result);

 private:
  absl::Status DropStatus(Fault reason);
  absl::Status RefusalStatus(Fault reason);
  template <typename Call>
  void Finish(std::unique_ptr<Call> call, absl::StatusOr<typename Call::Result> result);

  Admission* const admission_;
  Clock* const clock_;
  Metrics* const metrics_;
  EngineEvents* const events_;
};

}  // namespace idempotency
