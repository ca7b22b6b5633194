// Every row of the specification's table for Complete, Fail and Renew, over every combination of
// record and call.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "tests/record/decide_case.h"
#include "tests/record/steady_clock.h"
#include "tests/util/describe.h"

namespace idempotency {
namespace {

using decide_case::Call;
using decide_case::Caller;
using decide_case::Case;
using decide_case::ForEachCase;
using decide_case::kPolicy;
using decide_case::kTightRest;
using decide_case::Lease;
using decide_case::Now;
using decide_case::OwnerOf;
using decide_case::RecordOf;
using decide_case::Stored;
using decide_case::Window;

enum class Row { kUntouched, kRecorded, kRenewed };

struct TableRow {
  const char* record;
  bool (*matches)(const Case& c, Call call, bool other_content);
  OwnerVerdict verdict;
  Row row;
};

bool HasContentOf(const Case& c, Call call, bool other_content) {
  if (other_content) return false;
  switch (c.stored) {
    case Stored::kCompleted:
      return call == Call::kComplete;
    case Stored::kFailedFinal:
      return call == Call::kFailFinal;
    case Stored::kReleased:
      return call == Call::kFailNotApplied;
    case Stored::kFailedUnknown:
      return call == Call::kFailUnknown;
    default:
      return false;
  }
}

bool FinalOrReleased(const Case& c) { return c.Final() || c.stored == Stored::kReleased; }

// First row that matches wins.
const TableRow kTable[] = {
    {"none, or purged", [](const Case& c, Call, bool) { return c.stored == Stored::kNone; },
     OwnerVerdict::kRecordNotFound, Row::kUntouched},
    {"by any other attempt", [](const Case& c, Call, bool) { return c.caller != Caller::kLast; },
     OwnerVerdict::kLeaseLost, Row::kUntouched},

    {"Renew: final or released",
     [](const Case& c, Call call, bool) { return call == Call::kRenew && FinalOrReleased(c); },
     OwnerVerdict::kAlreadyFinished, Row::kUntouched},
    {"Renew: after its own Fail UNKNOWN",
     [](const Case& c, Call call, bool) {
       return call == Call::kRenew && c.stored == Stored::kFailedUnknown;
     },
     OwnerVerdict::kLeaseLost, Row::kUntouched},
    {"Renew: unknown attempts, the lease has ended, the window has no room for the shortest lease",
     [](const Case& c, Call call, bool) {
       return call == Call::kRenew && c.unknown_attempts > 0 && c.PastWindow() &&
              c.lease != Lease::kRunning;
     },
     OwnerVerdict::kNeedsResolution, Row::kUntouched},
    {"Renew: in progress or abandoned",
     [](const Case&, Call call, bool) { return call == Call::kRenew; }, OwnerVerdict::kRenewed,
     Row::kRenewed},

    {"final or released by this attempt with the same content",
     [](const Case& c, Call call, bool other) {
       return FinalOrReleased(c) && HasContentOf(c, call, other);
     },
     OwnerVerdict::kAlreadyRecorded, Row::kUntouched},
    {"final or released by this attempt with other content",
     [](const Case& c, Call, bool) { return FinalOrReleased(c); }, OwnerVerdict::kOutcomeConflict,
     Row::kUntouched},
    {"Fail UNKNOWN again with the same content",
     [](const Case& c, Call call, bool other) {
       return c.stored == Stored::kFailedUnknown && HasContentOf(c, call, other);
     },
     OwnerVerdict::kAlreadyRecorded, Row::kUntouched},
    {"in progress or abandoned, swept or not",
     [](const Case& c, Call, bool) { return c.InProgress() || c.stored == Stored::kFailedUnknown; },
     OwnerVerdict::kRecorded, Row::kRecorded},
};

Record ExpectedRecorded(const Record& old, const OwnerItem& item, Call call) {
  Record recorded = old;
  recorded.finished_at = Now();
  recorded.answer = item.answer;
  switch (call) {
    case Call::kComplete:
      recorded.state = RecordState::kCompleted;
      break;
    case Call::kFailNotApplied:
      recorded.state = RecordState::kReleased;
      break;
    case Call::kFailFinal:
      recorded.state = RecordState::kFailedFinal;
      break;
    case Call::kFailUnknown:
      recorded.state = RecordState::kFailedUnknown;
      // Ends the lease now.
      recorded.lease_expires_at = std::min(old.lease_expires_at, Now());
      break;
    case Call::kRenew:
      ADD_FAILURE() << "a Renew records nothing";
  }
  return recorded;
}

Record ExpectedRenewed(const Record& old, const OwnerItem& item, const Case& c) {
  absl::Duration granted = item.lease_duration;
  if (old.unknown_attempts > 0) {
    const absl::Duration left = c.window == Window::kInside  ? absl::Hours(3)
                                : c.window == Window::kTight ? kTightRest
                                : c.window == Window::kShortestLease
                                    ? kPolicy.shortest_lease
                                    : kPolicy.shortest_lease - decide_case::kMicro;
    granted = std::min(granted, left);
  }
  Record renewed = old;
  renewed.state = RecordState::kInProgress;
  renewed.lease_expires_at = std::max(old.lease_expires_at, Now() + granted);
  renewed.lease_duration = std::max(old.lease_duration, absl::Ceil(granted, absl::Milliseconds(1)));
  return renewed;
}

const TableRow& FirstThatMatches(const Case& c, Call call, bool other_content) {
  for (const TableRow& row : kTable) {
    if (row.matches(c, call, other_content)) return row;
  }
  ADD_FAILURE() << "the table has a hole: " << Describe(c);
  return kTable[0];
}

TEST(DecideOwnerTable, EveryCombinationIsDecidedByTheFirstRowThatMatches) {
  std::map<const TableRow*, int> hits;
  ForEachCase([&](const Case& c) {
    for (const Call call : {Call::kComplete, Call::kFailNotApplied, Call::kFailFinal,
                            Call::kFailUnknown, Call::kRenew}) {
      for (const bool other_content : {false, true}) {
        if (testing::Test::HasFailure()) return;
        const TableRow& row = FirstThatMatches(c, call, other_content);
        ++hits[&row];
        const std::optional<Record> record = RecordOf(c);
        const OwnerItem item = OwnerOf(c, call, other_content);
        const OwnerDecision decision =
            DecideOwner(record.has_value() ? &*record : nullptr, item, Now(), kPolicy);

        SCOPED_TRACE(Describe(c) + "\nrow: " + row.record);
        EXPECT_EQ(Describe(decision.verdict), Describe(row.verdict));
        const std::string expected = row.row == Row::kUntouched ? "untouched"
                                     : row.row == Row::kRecorded
                                         ? Describe(ExpectedRecorded(*record, item, call))
                                         : Describe(ExpectedRenewed(*record, item, c));
        EXPECT_EQ(decision.next.has_value() ? Describe(*decision.next) : "untouched", expected);
      }
    }
  });
  EXPECT_EQ(hits.size(), std::size(kTable)) << "a row that no case reaches is not tested";
}

}  // namespace
}  // namespace idempotency
