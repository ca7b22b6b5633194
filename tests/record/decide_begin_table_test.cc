// Every row of the specification's table for Begin, over every combination of record and call.

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <set>

#include "server/record/limit.h"
#include "tests/record/decide_case.h"
#include "tests/record/steady_clock.h"
#include "tests/util/describe.h"

namespace idempotency {
namespace {

using decide_case::BeginOf;
using decide_case::Caller;
using decide_case::Case;
using decide_case::ForEachCase;
using decide_case::kAskedLease;
using decide_case::kPolicy;
using decide_case::kTightRest;
using decide_case::Now;
using decide_case::RecordOf;
using decide_case::Request;
using decide_case::Stored;
using decide_case::Window;

// What becomes of the row.
enum class Row { kUntouched, kFirstAttempt, kNextAttempt, kResumed };

struct TableRow {
  const char* record;  // as in the specification
  const char* begin;
  bool (*matches)(const Case& c, Request request);
  BeginVerdict verdict;
  bool repeated;
  Row row;
};

// First row that matches wins.
const TableRow kTable[] = {
    {"live, another operation or fingerprint", "any",
     [](const Case& c, Request request) {
       return c.stored != Stored::kNone && !c.Expired() && request != Request::kSame;
     },
     BeginVerdict::kKeyReused, false, Row::kUntouched},
    {"live and final, same request", "any id",
     [](const Case& c, Request) { return c.Final() && !c.Expired(); }, BeginVerdict::kReplay, false,
     Row::kUntouched},
    {"an earlier attempt of it, the attempt of a released record, any attempt of an expired one",
     "any",
     [](const Case& c, Request) {
       return c.caller == Caller::kEarlier ||
              (c.stored == Stored::kReleased && c.caller == Caller::kLast) ||
              (c.Expired() && c.caller != Caller::kForeign);
     },
     BeginVerdict::kLeaseLost, false, Row::kUntouched},
    {"none, or expired", "any",
     [](const Case& c, Request) { return c.stored == Stored::kNone || c.Expired(); },
     BeginVerdict::kStarted, false, Row::kFirstAttempt},
    {"in progress, lease not over", "the last attempt's id",
     [](const Case& c, Request) {
       return c.InProgress() && !c.LeaseOver() && c.caller == Caller::kLast;
     },
     BeginVerdict::kStarted, true, Row::kUntouched},
    {"in progress, lease not over", "another id",
     [](const Case& c, Request) { return c.InProgress() && !c.LeaseOver(); },
     BeginVerdict::kInProgress, false, Row::kUntouched},
    {"abandoned, HOLD, or past the takeover window", "any id",
     [](const Case& c, Request) { return c.Abandoned() && (c.hold || c.PastWindow()); },
     BeginVerdict::kNeedsResolution, false, Row::kUntouched},
    {"abandoned by its own Fail UNKNOWN", "the last attempt's id",
     [](const Case& c, Request) {
       return c.stored == Stored::kFailedUnknown && c.caller == Caller::kLast;
     },
     BeginVerdict::kLeaseLost, false, Row::kUntouched},
    {"abandoned, TAKE_OVER", "the last attempt's id",
     [](const Case& c, Request) { return c.Abandoned() && c.caller == Caller::kLast; },
     BeginVerdict::kStarted, true, Row::kResumed},
    {"abandoned, TAKE_OVER", "another id", [](const Case& c, Request) { return c.Abandoned(); },
     BeginVerdict::kStarted, false, Row::kNextAttempt},
    {"released, past the takeover window with an unknown attempt", "another id",
     [](const Case& c, Request) {
       return c.stored == Stored::kReleased && c.PastWindow() && c.unknown_attempts > 0;
     },
     BeginVerdict::kNeedsResolution, false, Row::kUntouched},
    {"released", "another id", [](const Case& c, Request) { return c.stored == Stored::kReleased; },
     BeginVerdict::kStarted, false, Row::kNextAttempt},
};

// Once there are unknown attempts the window's end caps the lease.
void ExpectLease(Record& expected, const Case& c) {
  absl::Duration granted = kAskedLease;
  if (expected.unknown_attempts > 0 && c.window == Window::kTight) granted = kTightRest;
  if (expected.unknown_attempts > 0 && c.window == Window::kShortestLease) {
    granted = kPolicy.shortest_lease;
  }
  expected.lease_expires_at = Now() + granted;
  expected.lease_duration = absl::Ceil(granted, absl::Milliseconds(1));
}

Record ExpectedFirst(const std::optional<Record>& old, const BeginItem& item) {
  Record first;
  first.key = item.key;
  first.operation = item.operation;
  first.fingerprint = item.fingerprint;
  first.fingerprint_scheme = item.fingerprint_scheme;
  first.labels = item.labels;
  first.created_at = Now();
  first.ttl = item.ttl;
  first.hold = item.hold;
  first.state = RecordState::kInProgress;
  first.attempt = item.attempt;
  first.attempt_number = 1;
  first.fencing_token = absl::ToUnixMicros(Now());
  first.started_at = Now();
  first.lease_expires_at = Now() + kAskedLease;
  first.lease_duration = kAskedLease;
  if (old.has_value()) {
    EXPECT_GT(first.created_at, old->created_at);
    EXPECT_GT(first.fencing_token, old->fencing_token);
  }
  return first;
}

Record ExpectedNext(const Record& old, const BeginItem& item, const Case& c) {
  Record next = old;
  PreviousAttempt previous;
  previous.attempt_number = 3;
  previous.started_at = old.started_at;
  previous.lease_expires_at = old.lease_expires_at;
  if (old.answer != nullptr) previous.failure = std::get<Failure>(*old.answer);
  next.previous_attempt = previous;
  next.earlier_attempts.push_back(old.attempt);
  next.unknown_attempts = old.unknown_attempts + (c.Abandoned() ? 1 : 0);
  next.hold = old.hold || item.hold;
  next.state = RecordState::kInProgress;
  next.attempt = item.attempt;
  next.attempt_number = 4;
  next.fencing_token = absl::ToUnixMicros(Now());
  next.started_at = Now();
  next.finished_at.reset();
  next.answer.reset();
  ExpectLease(next, c);
  EXPECT_GT(next.fencing_token, old.fencing_token);
  return next;
}

Record ExpectedResumed(const Record& old, const BeginItem& item, const Case& c) {
  Record resumed = old;
  resumed.state = RecordState::kInProgress;
  resumed.hold = old.hold || item.hold;
  resumed.unknown_attempts = old.unknown_attempts + 1;
  ExpectLease(resumed, c);
  return resumed;
}

std::string ExpectedRow(Row row, const std::optional<Record>& old, const BeginItem& item,
                        const Case& c) {
  switch (row) {
    case Row::kUntouched:
      return "untouched";
    case Row::kFirstAttempt:
      return Describe(ExpectedFirst(old, item));
    case Row::kNextAttempt:
      return Describe(ExpectedNext(*old, item, c));
    case Row::kResumed:
      return Describe(ExpectedResumed(*old, item, c));
  }
  return "";
}

const TableRow& FirstThatMatches(const Case& c, Request request) {
  for (const TableRow& row : kTable) {
    if (row.matches(c, request)) return row;
  }
  ADD_FAILURE() << "the table has a hole: " << Describe(c);
  return kTable[0];
}

TEST(DecideBeginTable, EveryCombinationIsDecidedByTheFirstRowThatMatches) {
  std::map<const TableRow*, int> hits;
  ForEachCase([&](const Case& c) {
    for (const Request request :
         {Request::kSame, Request::kOtherOperation, Request::kOtherFingerprint}) {
      for (const bool asks_hold : {false, true}) {
        if (testing::Test::HasFailure()) return;
        const TableRow& row = FirstThatMatches(c, request);
        ++hits[&row];
        const std::optional<Record> record = RecordOf(c);
        const BeginItem item = BeginOf(c, request, asks_hold);
        const BeginDecision decision =
            DecideBegin(record.has_value() ? &*record : nullptr, item, Now(), kPolicy);

        SCOPED_TRACE(Describe(c) + "\nrow: " + row.record + " | " + row.begin);
        EXPECT_EQ(Describe(decision.verdict), Describe(row.verdict));
        EXPECT_EQ(decision.repeated, row.repeated);
        EXPECT_EQ(decision.next.has_value() ? Describe(*decision.next) : "untouched",
                  ExpectedRow(row.row, record, item, c));
      }
    }
  });
  EXPECT_EQ(hits.size(), std::size(kTable)) << "a row that no case reaches is not tested";
}

}  // namespace
}  // namespace idempotency
