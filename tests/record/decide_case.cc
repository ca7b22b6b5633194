#include "tests/record/decide_case.h"

#include "absl/strings/str_cat.h"
#include "server/base/check.h"

namespace idempotency::decide_case {
namespace {

constexpr absl::Duration kTtl = absl::Hours(24);

absl::Time LeaseEnd(Lease lease) {
  switch (lease) {
    case Lease::kRunning:
      return Now() + absl::Seconds(25);
    case Lease::kAtEnd:
      return Now();
    case Lease::kBetween:
      return Now() - absl::Seconds(1);
    case Lease::kAtOver:
      return Now() - kPolicy.skew_margin;
    case Lease::kOver:
      return Now() - kPolicy.skew_margin - kMicro;
  }
  return Now();
}

absl::Time RetentionEnd(Retention retention) {
  switch (retention) {
    case Retention::kRunning:
      return Now() + absl::Minutes(30);
    case Retention::kAtEnd:
      return Now() - kPolicy.skew_margin;
    case Retention::kOver:
      return Now() - kPolicy.skew_margin - kMicro;
  }
  return Now();
}

absl::Duration WindowLeft(Window window) {
  switch (window) {
    case Window::kInside:
      return absl::Hours(3);
    case Window::kTight:
      return kTightRest;
    case Window::kShortestLease:
      return kPolicy.shortest_lease;
    case Window::kTooShort:
      return kPolicy.shortest_lease - kMicro;
  }
  return absl::ZeroDuration();
}

// The stored state, and the call that led to it.
struct Reached {
  RecordState state;
  std::optional<Call> by;
};

Reached ReachedBy(Stored stored) {
  switch (stored) {
    case Stored::kInProgress:
      return {RecordState::kInProgress, std::nullopt};
    case Stored::kSwept:
      return {RecordState::kSwept, std::nullopt};
    case Stored::kCompleted:
      return {RecordState::kCompleted, Call::kComplete};
    case Stored::kFailedFinal:
      return {RecordState::kFailedFinal, Call::kFailFinal};
    case Stored::kReleased:
      return {RecordState::kReleased, Call::kFailNotApplied};
    case Stored::kFailedUnknown:
      return {RecordState::kFailedUnknown, Call::kFailUnknown};
    case Stored::kNone:
      break;
  }
  IDEM_CHECK(false) << "no record, no state";
  return {RecordState::kInProgress, std::nullopt};
}

}  // namespace

absl::Time Now() { return absl::FromUnixMicros(1'800'000'000'123'457); }

bool Case::Settled() const {
  return Final() || (stored == Stored::kReleased && unknown_attempts == 0);
}

std::string Describe(const Case& given) {
  static constexpr const char* kStored[] = {
      "none", "in progress", "swept", "completed", "failed FINAL", "released", "failed UNKNOWN"};
  static constexpr const char* kLease[] = {"running", "at its end", "between end and over",
                                           "exactly at over", "over by 1 µs"};
  static constexpr const char* kRetention[] = {"running", "exactly at its end", "over by 1 µs"};
  static constexpr const char* kWindow[] = {"inside", "tight", "the shortest lease left",
                                            "1 µs less than the shortest lease left"};
  static constexpr const char* kCaller[] = {"last", "earlier", "foreign"};
  return absl::StrCat(kStored[static_cast<int>(given.stored)], ", unknown ", given.unknown_attempts,
                      given.hold ? ", HOLD" : ", TAKE_OVER", ", lease ",
                      kLease[static_cast<int>(given.lease)], ", retention ",
                      kRetention[static_cast<int>(given.retention)],
                      given.retention_by == RetentionBy::kTtl ? " (ttl)" : " (replay window)",
                      ", window ", kWindow[static_cast<int>(given.window)], ", attempt ",
                      kCaller[static_cast<int>(given.caller)]);
}

void ForEachCase(const std::function<void(const Case&)>& visit) {
  Case none;
  none.stored = Stored::kNone;
  none.caller = Caller::kForeign;
  visit(none);
  for (const Stored stored : {Stored::kInProgress, Stored::kSwept, Stored::kCompleted,
                              Stored::kFailedFinal, Stored::kReleased, Stored::kFailedUnknown})
    for (const int unknown : {0, 1})
      for (const bool hold : {false, true})
        for (const Lease lease :
             {Lease::kRunning, Lease::kAtEnd, Lease::kBetween, Lease::kAtOver, Lease::kOver})
          for (const Retention retention :
               {Retention::kRunning, Retention::kAtEnd, Retention::kOver})
            for (const RetentionBy by : {RetentionBy::kTtl, RetentionBy::kReplayWindow})
              for (const Window window :
                   {Window::kInside, Window::kTight, Window::kShortestLease, Window::kTooShort})
                for (const Caller caller : {Caller::kLast, Caller::kEarlier, Caller::kForeign})
                  visit({stored, unknown, hold, lease, retention, by, window, caller});
}

std::optional<Record> RecordOf(const Case& given) {
  if (given.stored == Stored::kNone) return std::nullopt;
  Record record;
  record.key = {"merchant", "order-1"};
  record.operation = "POST /orders";
  record.fingerprint.fill(7);
  record.fingerprint_scheme = 1;
  record.labels = {{"order", "1"}};
  record.hold = given.hold;
  record.state = ReachedBy(given.stored).state;
  record.attempt = AttemptOf(Caller::kLast);
  record.attempt_number = 3;
  record.fencing_token = 1'700'000'000'000'000;
  record.earlier_attempts = {AttemptOf(Caller::kEarlier), HashAttemptId("earlier-2")};
  record.unknown_attempts = given.unknown_attempts;
  PreviousAttempt previous;
  previous.attempt_number = 2;
  record.refused_outcome = RefusedOutcome{500, "refused", {}, Now() - absl::Minutes(5), 1};

  record.created_at = Now() - kPolicy.takeover_window + WindowLeft(given.window);
  // Settled records have no use for the window: their creation serves the retention.
  if (given.Settled() && given.retention_by == RetentionBy::kTtl) {
    record.created_at = RetentionEnd(given.retention) - kTtl;
  }
  record.ttl = kTtl;
  if (given.retention_by == RetentionBy::kReplayWindow) record.ttl = absl::Minutes(1);
  record.started_at = record.created_at + absl::Minutes(10);
  record.lease_expires_at = LeaseEnd(given.lease);
  record.lease_duration = absl::Seconds(40);
  previous.started_at = record.created_at;
  previous.lease_expires_at = record.created_at + absl::Minutes(1);
  record.previous_attempt = previous;

  const std::optional<Call> by = ReachedBy(given.stored).by;
  if (by.has_value()) {
    record.answer = AnswerOf(*by, false);
    record.finished_at = given.retention_by == RetentionBy::kReplayWindow
                             ? RetentionEnd(given.retention) - kPolicy.replay_window
                             : record.created_at + absl::Minutes(11);
  }
  return record;
}

AttemptHash AttemptOf(Caller caller) {
  switch (caller) {
    case Caller::kLast:
      return HashAttemptId("last");
    case Caller::kEarlier:
      return HashAttemptId("earlier-1");
    case Caller::kForeign:
      return HashAttemptId("foreign");
  }
  return {};
}

BeginItem BeginOf(const Case& given, Request request, bool hold) {
  BeginItem item;
  item.key = {"merchant", "order-1"};
  item.operation = request == Request::kOtherOperation ? "POST /refunds" : "POST /orders";
  item.fingerprint.fill(request == Request::kOtherFingerprint ? 8 : 7);
  // Never compared: the 32 bytes are.
  item.fingerprint_scheme = 0;
  item.attempt = AttemptOf(given.caller);
  item.ttl = absl::Hours(48);
  item.lease_duration = kAskedLease;
  item.hold = hold;
  item.labels = {{"order", "2"}};
  return item;
}

std::shared_ptr<const Answer> AnswerOf(Call call, bool other_content) {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.response_id = "response";
  outcome.body = other_content ? "other" : "paid";
  if (call == Call::kComplete) return std::make_shared<const Answer>(outcome);
  Failure failure;
  failure.disposition = call == Call::kFailNotApplied ? Disposition::kNotApplied
                        : call == Call::kFailFinal    ? Disposition::kFinal
                                                      : Disposition::kUnknown;
  failure.code = other_content ? "other" : "declined";
  return std::make_shared<const Answer>(failure);
}

OwnerItem OwnerOf(const Case& given, Call call, bool other_content) {
  OwnerItem item;
  item.key = {"merchant", "order-1"};
  item.attempt = AttemptOf(given.caller);
  if (call == Call::kRenew) {
    // One that reaches further than every stored lease, and one that does not.
    item.lease_duration = other_content ? absl::Seconds(5) : kAskedLease;
  } else {
    item.answer = AnswerOf(call, other_content);
  }
  return item;
}

}  // namespace idempotency::decide_case
