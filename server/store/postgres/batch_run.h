// What every batch does about failure: halves it around an item that the database refuses or a row
// that another transaction holds, runs it again after a deadlock, and runs what has no answer yet
// again on a new connection when the connection was lost.
//
// A batch is worked on in steps. A step is one transaction for some of the batch's items; it is
// given the items by their places in the batch.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/metrics.h"
#include "server/record/fault.h"
#include "server/store/postgres/database_clock.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace idempotency {

// Places in a batch, ascending.
using Places = std::vector<size_t>;
using PlacesView = absl::Span<const size_t>;

enum class LockWait { kNormal, kShort };

struct BatchRunOptions {
  // For how long a batch is run again that may have happened.
  absl::Duration retry_budget = absl::Seconds(10);
  // Waits between these runs, from the second on.
  BackoffOptions backoff;
  // Of outcomes and histories in the answers of one run; one row comes on top.
  int64_t max_answer_bytes = 0;
};

// One batch on its way; lives for one call.
class BatchRun {
 public:
  // A transaction for these places. Returns nothing when all of them have an answer or were left
  // open for a further step. REQUIRES of a step: it answers nothing before its transaction ended
  // well, because after a failure it may be called again for some of the places.
  using Step = std::function<std::optional<PipelineFailure>(PlacesView places, LockWait wait)>;

  BatchRun(size_t size, Session* session, DatabaseClock* clock, Metrics* metrics);

  // Runs the step, halving as needed, until each place was worked on or has a fault. Returns a
  // failure when the batch cannot go on: the connection or the whole database is the matter.
  std::optional<PipelineFailure> Do(PlacesView places, const Step& step,
                                    LockWait wait = LockWait::kNormal);

  Session& session() { return *session_; }
  DatabaseClock& clock() { return *clock_; }
  // All places without an answer and without a fault.
  Places Open() const;
  void MarkAnswered(size_t place) { answered_[place] = true; }
  void SetFault(size_t place, Fault fault, absl::string_view message);
  // What is left of this run's bytes for answers. Below zero: nothing is to be read any more. At
  // the beginning of a run it is not.
  int64_t answer_room() const { return answer_room_; }
  void TakeAnswerRoom(size_t bytes) { answer_room_ -= static_cast<int64_t>(bytes); }
  void GiveAnswerRoomBack(size_t bytes) { answer_room_ += static_cast<int64_t>(bytes); }
  // There was no room left for these answers: kNotRead.
  void SetNotRead(PlacesView places);
  // Notes that a write of the item was committed, or may have been.
  void MarkWritten(size_t place) { written_[place] = true; }
  void MarkWritten(PlacesView places);
  // In this run or an earlier one.
  bool MayBeWritten(size_t place) const { return written_[place]; }

  // Runs `once`, the whole batch from its beginning, until every place has an answer or a fault
  // that may stand. Answers are kept over the runs, faults are not: `once` works on what is Open.
  void RunUntilKnown(const BatchRunOptions& options,
                     const std::function<std::optional<PipelineFailure>()>& once);

  bool IsAnswered(size_t place) const { return answered_[place]; }
  bool HasFault(size_t place) const { return !faults_[place].ok(); }
  // The fault of a place that has no answer.
  absl::Status FaultAt(size_t place) const { return faults_[place]; }

 private:
  void SetFaults(PlacesView places, Fault fault, absl::string_view message);
  bool IsInDoubt() const;
  void CloseOpen(const PipelineFailure& failure);
  void DoubtOverrules();

  const size_t size_;
  Session* const session_;
  DatabaseClock* const clock_;
  Metrics* const metrics_;
  std::vector<bool> answered_;
  std::vector<absl::Status> faults_;  // ok: none
  std::vector<bool> written_;         // over all runs
  int64_t answer_room_ = 0;           // of this run
};

// Parameters of a statement, and before it the short lock_timeout if that is wanted: one
// transaction.
std::vector<Statement> WithLockWait(LockWait wait, Query query, Params params);

}  // namespace idempotency
