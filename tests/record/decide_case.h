// The situations of the state machine tables as knobs: one value of each knob is one case.
//
// Knobs and not records, so that the tables in the tests can be written in the specification's
// words ("lease over", "expired") without computing them from instants a second time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/record/decide.h"
#include "server/record/record.h"

namespace idempotency::decide_case {

enum class Stored {
  kNone,
  kInProgress,
  kSwept,
  kCompleted,
  kFailedFinal,
  kReleased,
  kFailedUnknown
};
// Where `now` stands to the lease's end and to "over", the end plus the skew margin.
enum class Lease { kRunning, kAtEnd, kBetween, kAtOver, kOver };
// Where `now` stands to the end of the retention plus the skew margin; the record counts as expired
// only if it is settled as well.
enum class Retention { kRunning, kAtEnd, kOver };
// Which of the two ends of the retention is the later one.
enum class RetentionBy { kTtl, kReplayWindow };
// What is left of the takeover window: much; less than the lease asked for, and no whole number of
// milliseconds; exactly the shortest lease; 1 µs less than that.
enum class Window { kInside, kTight, kShortestLease, kTooShort };
enum class Caller { kLast, kEarlier, kForeign };
enum class Request { kSame, kOtherOperation, kOtherFingerprint };
enum class Call { kComplete, kFailNotApplied, kFailFinal, kFailUnknown, kRenew };

inline constexpr Policy kPolicy = {};
inline constexpr absl::Duration kAskedLease = absl::Seconds(60);
inline constexpr absl::Duration kTightRest = absl::Microseconds(30'000'500);
inline constexpr absl::Duration kMicro = absl::Microseconds(1);
// The reading at which every case is decided: no whole millisecond.
absl::Time Now();

// A record, seen at Now().
struct Case {
  Stored stored = Stored::kInProgress;
  int unknown_attempts = 0;
  bool hold = false;
  Lease lease = Lease::kRunning;
  Retention retention = Retention::kRunning;
  RetentionBy retention_by = RetentionBy::kTtl;
  Window window = Window::kInside;
  Caller caller = Caller::kLast;

  bool Settled() const;
  bool Expired() const { return Settled() && retention == Retention::kOver; }
  bool InProgress() const { return stored == Stored::kInProgress || stored == Stored::kSwept; }
  bool Final() const { return stored == Stored::kCompleted || stored == Stored::kFailedFinal; }
  bool LeaseOver() const { return lease == Lease::kOver; }
  bool Abandoned() const {
    return (InProgress() && LeaseOver()) || stored == Stored::kFailedUnknown;
  }
  bool PastWindow() const { return window == Window::kTooShort; }
};

std::string Describe(const Case& given);
// Every combination of the knobs; kNone once.
void ForEachCase(const std::function<void(const Case&)>& visit);

// The record of the case; absent for kNone. It is attempt 3, after the attempts "earlier-1" and
// "earlier-2".
std::optional<Record> RecordOf(const Case& given);
AttemptHash AttemptOf(Caller caller);
BeginItem BeginOf(const Case& given, Request request, bool hold);

// The content that a finished record of this kind carries, or another of the same kind.
std::shared_ptr<const Answer> AnswerOf(Call call, bool other_content);
OwnerItem OwnerOf(const Case& given, Call call, bool other_content);

}  // namespace idempotency::decide_case
