#include "tests/simulation/checker.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/record/decide.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

using Versions = std::vector<Version>;
using Matches = std::function<bool(const Record*)>;

class Checker {
 public:
  Checker(const History& history, const CheckTerms& terms) : history_(history), terms_(terms) {}

  std::optional<Violation> Check() {
    for (const auto& [key, versions] : history_.versions()) CheckRows(key, versions);
    for (const HeardCall& call : history_.calls()) CheckCall(call);
    for (const auto& [key, versions] : history_.versions()) CheckCauses(key, versions);
    return std::move(found_);
  }

 private:
  void Expect(bool holds, const char* invariant, const RecordKey& key, const std::string& what) {
    if (holds || found_.has_value()) return;
    found_ = Violation{invariant, what, key};
  }

  // What became of the row, whoever did it.
  void CheckRows(const RecordKey& key, const Versions& versions);
  void CheckSameRecord(const Version& before, const Version& after);
  void CheckNextAttempt(const Version& before, const Version& after);
  void CheckEndOfRecord(const Version& before, const Version& after, absl::Duration created,
                        absl::Duration settled);

  void CheckCall(const HeardCall& call);
  void CheckTold(const HeardCall& call, const BeginItem& item, const BeginResult& result);
  void CheckTold(const HeardCall& call, const OwnerItem& item, const OwnerResult& result);
  void CheckTold(const HeardCall& call, const LookupItem& item, const LookupResult& result);
  void CheckFault(const HeardCall& call, const absl::Status& status);
  void CheckStartIsItsAlone(const HeardCall& call, const BeginItem& item, const Record& record);
  // What was written was asked for by a call that does not deny it.
  void CheckCauses(const RecordKey& key, const Versions& versions);
  bool SomebodyMayHave(const std::function<bool(const HeardCall&)>& asked_for) const;
  bool WasSubmitted(const Record& record) const;

  // Whether the key's row was such at some instant of the call.
  bool WasOnce(const HeardCall& call, const Matches& matches) const;

  const History& history_;
  const CheckTerms terms_;
  std::optional<Violation> found_;
  std::map<std::tuple<RecordKey, absl::Time, int32_t>, AttemptHash> started_;
};

bool IsDefinite(const absl::Status& status) {
  const Fault fault = FaultOf(status);
  return fault != Fault::kCommitUnknown && fault != Fault::kInternal;
}

// A mark of the sweeper says that the lease was over. After a jump of the clock that was noted
// later it counts anew, and nobody is told of the mark.
bool IsAtWork(RecordState state) {
  return state == RecordState::kInProgress || state == RecordState::kSwept;
}

bool IsOver(RecordState state) {
  return state == RecordState::kReleased || state == RecordState::kFailedUnknown;
}

void Checker::CheckRows(const RecordKey& key, const Versions& versions) {
  int64_t highest_token = 0;
  absl::Duration created;
  absl::Duration state_since;
  for (size_t i = 1; i < versions.size(); ++i) {
    const Version& before = versions[i - 1];
    const Version& after = versions[i];
    const bool is_same = before.row.has_value() && after.row.has_value() &&
                         before.row->created_at == after.row->created_at;
    if (before.row.has_value() && !is_same) CheckEndOfRecord(before, after, created, state_since);
    if (!after.row.has_value()) continue;
    if (!is_same) created = after.time;
    if (!is_same || before.row->state != after.row->state) state_since = after.time;
    const bool is_new_attempt = !is_same || before.row->attempt_number != after.row->attempt_number;
    if (is_new_attempt) {
      Expect(after.row->fencing_token > highest_token, "I2", key,
             absl::StrCat("attempt ", after.row->attempt_number, " was granted token ",
                          after.row->fencing_token, ", no greater than ", highest_token));
      highest_token = std::max(highest_token, after.row->fencing_token);
    }
    if (!is_same) {
      Expect(after.row->attempt_number == 1 && after.row->state == RecordState::kInProgress, "I3",
             key, "a record does not begin with its first attempt");
    } else if (is_new_attempt) {
      CheckNextAttempt(before, after);
    } else {
      CheckSameRecord(before, after);
    }
    if (IsFinal(after.row->state)) {
      Expect(WasSubmitted(*after.row), "I7", key,
             "an outcome is recorded that its attempt did not submit");
    }
  }
}

void Checker::CheckSameRecord(const Version& before, const Version& after) {
  const RecordKey& key = after.row->key;
  Expect(before.row->attempt == after.row->attempt &&
             before.row->fencing_token == after.row->fencing_token,
         "I1", key, "an attempt changed its hands or its token");
  if (!IsFinal(before.row->state)) return;
  Expect(before.row->state == after.row->state && before.row->answer == after.row->answer, "I5",
         key, "a final outcome was changed");
}

void Checker::CheckNextAttempt(const Version& before, const Version& after) {
  const RecordKey& key = after.row->key;
  Expect(after.row->attempt_number == before.row->attempt_number + 1, "I1", key,
         "an attempt's number was left out");
  Expect(before.row->fingerprint == after.row->fingerprint, "I9", key,
         "another body was given the work");
  const std::vector<AttemptHash>& earlier = before.row->earlier_attempts;
  Expect(after.row->attempt != before.row->attempt &&
             std::find(earlier.begin(), earlier.end(), after.row->attempt) == earlier.end(),
         "I8", key, "an attempt was started a second time");
  Expect(!IsFinal(before.row->state), "I5", key, "an attempt was started after a final outcome");
  if (IsOver(before.row->state)) {
    Expect(!before.row->hold || before.row->state == RecordState::kReleased, "I3", key,
           "an attempt was started although the record is on HOLD");
    return;
  }
  Expect(!before.row->hold, "I3", key, "an attempt was started although the record is on HOLD");
  Expect(after.time >= before.lease_promised_until, "I3", key,
         absl::StrCat("attempt ", after.row->attempt_number, " was started ",
                      absl::FormatDuration(before.lease_promised_until - after.time),
                      " before the lease of the one before was over"));
}

void Checker::CheckEndOfRecord(const Version& before, const Version& after, absl::Duration created,
                               absl::Duration settled) {
  const RecordKey& key = before.row->key;
  const bool is_settled =
      IsFinal(before.row->state) ||
      (before.row->state == RecordState::kReleased && before.row->unknown_attempts == 0);
  Expect(is_settled, "I15", key, "a record that was not settled is gone");
  Expect(after.time >= settled + terms_.replay_window &&
             (terms_.clock_jumped || after.time >= created + before.row->ttl),
         "I6", key,
         absl::StrCat("a record is gone ", absl::FormatDuration(after.time - created),
                      " after it was made, and ", absl::FormatDuration(after.time - settled),
                      " after it was settled"));
}

bool Checker::WasOnce(const HeardCall& call, const Matches& matches) const {
  const Versions& versions = history_.versions().at(call.key());
  for (size_t i = 0; i < versions.size(); ++i) {
    if (versions[i].since > *call.answered_at) break;
    const bool is_gone_before = i + 1 < versions.size() && versions[i + 1].since < call.sent_at;
    if (is_gone_before) continue;
    if (matches(versions[i].row.has_value() ? &*versions[i].row : nullptr)) return true;
  }
  return false;
}

void Checker::CheckCall(const HeardCall& call) {
  Expect(call.answers == 1, "I15", call.key(),
         absl::StrCat("call ", call.number, " was answered ", call.answers, " times"));
  if (call.answers != 1) return;
  if (const auto* status = std::get_if<absl::Status>(&call.told)) {
    return CheckFault(call, *status);
  }
  if (const auto* item = std::get_if<BeginItem>(&call.asked)) {
    return CheckTold(call, *item, std::get<BeginResult>(call.told));
  }
  if (const auto* item = std::get_if<OwnerItem>(&call.asked)) {
    return CheckTold(call, *item, std::get<OwnerResult>(call.told));
  }
  CheckTold(call, std::get<LookupItem>(call.asked), std::get<LookupResult>(call.told));
}

void Checker::CheckFault(const HeardCall& call, const absl::Status& status) {
  const auto* owner = std::get_if<OwnerItem>(&call.asked);
  if (owner == nullptr || owner->IsRenew()) return;
  const Fault fault = FaultOf(status);
  Expect(fault != Fault::kCancelled && fault != Fault::kDeadlineExceeded, "I15", call.key(),
         absl::StrCat("call ", call.number, ", an outcome, was dropped: ", status.message()));
}

void Checker::CheckStartIsItsAlone(const HeardCall& call, const BeginItem& item,
                                   const Record& record) {
  const auto [known, is_new] = started_.try_emplace(
      std::make_tuple(call.key(), record.created_at, record.attempt_number), item.attempt);
  Expect(is_new || known->second == item.attempt, "I1", call.key(),
         absl::StrCat("call ", call.number, ": attempt ", record.attempt_number,
                      " was started for two"));
}

void Checker::CheckTold(const HeardCall& call, const BeginItem& item, const BeginResult& result) {
  const std::string who = absl::StrCat("call ", call.number, ": ");
  const Record& told = *result.record;
  Expect(told.key == item.key, "I10", item.key, who + "another key's record was told");
  const auto is_same_record = [&](const Record* row) {
    return row != nullptr && row->created_at == told.created_at;
  };
  const bool has_mine = told.fingerprint == item.fingerprint;
  switch (result.verdict) {
    case BeginVerdict::kStarted:
      CheckStartIsItsAlone(call, item, told);
      Expect(has_mine, "I9", item.key, who + "another body was given the work");
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       return is_same_record(row) && row->attempt == item.attempt &&
                              row->attempt_number == told.attempt_number &&
                              row->fencing_token == told.fencing_token && IsAtWork(row->state);
                     }),
             "I8", item.key, who + "was told of a start that never was");
      return;
    case BeginVerdict::kReplay:
      Expect(has_mine, "I9", item.key, who + "another body was given the outcome");
      Expect(WasSubmitted(told), "I7", item.key, who + "was told an outcome nobody submitted");
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       return is_same_record(row) && IsFinal(row->state) &&
                              row->state == told.state && *row->answer == *told.answer;
                     }),
             "I6", item.key, who + "was told an outcome that was not the record's");
      return;
    case BeginVerdict::kInProgress:
      Expect(told.attempt != item.attempt, "I8", item.key, who + "was told to wait for itself");
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       return is_same_record(row) && IsAtWork(row->state) &&
                              row->attempt_number == told.attempt_number;
                     }),
             "I6", item.key, who + "was told of work that nobody was at");
      return;
    case BeginVerdict::kKeyReused:
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       return row != nullptr && row->fingerprint != item.fingerprint;
                     }),
             "I9", item.key, who + "was refused for a body that nobody sent");
      return;
    case BeginVerdict::kLeaseLost:
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       if (row == nullptr) return false;
                       const auto& earlier = row->earlier_attempts;
                       return (row->attempt == item.attempt &&
                               row->state != RecordState::kInProgress) ||
                              std::find(earlier.begin(), earlier.end(), item.attempt) !=
                                  earlier.end();
                     }),
             "I8", item.key, who + "lost a lease it never had");
      return;
    case BeginVerdict::kNeedsResolution:
      Expect(WasOnce(call,
                     [&](const Record* row) {
                       return row != nullptr && !IsFinal(row->state) &&
                              (row->state != RecordState::kReleased || row->unknown_attempts > 0);
                     }),
             "I12", item.key, who + "was told to ask for help with a record that is settled");
      return;
  }
}

void Checker::CheckTold(const HeardCall& call, const OwnerItem& item, const OwnerResult& result) {
  const std::string who = absl::StrCat("call ", call.number, ": ");
  const auto is_mine = [&](const Record* row) {
    return row != nullptr && row->attempt == item.attempt;
  };
  const auto expect_once = [&](const char* invariant, const char* what, const Matches& matches) {
    Expect(WasOnce(call, matches), invariant, item.key, who + what);
  };
  const auto has_my_answer = [&](const Record* row) {
    return is_mine(row) && row->answer != nullptr && *row->answer == *item.answer;
  };
  switch (result.verdict) {
    case OwnerVerdict::kRecorded:
    case OwnerVerdict::kAlreadyRecorded:
      return expect_once("I4",
                         "succeeded for an attempt that was not the last one, or left nothing",
                         has_my_answer);
    case OwnerVerdict::kRenewed:
      return expect_once("I4", "renewed a lease that was another's", [&](const Record* row) {
        return is_mine(row) && row->state == RecordState::kInProgress;
      });
    case OwnerVerdict::kAlreadyFinished:
      return expect_once("I5", "is said to have finished", [&](const Record* row) {
        return is_mine(row) && row->state != RecordState::kInProgress;
      });
    case OwnerVerdict::kOutcomeConflict:
      return expect_once("I5", "is said to have recorded something else", [&](const Record* row) {
        return is_mine(row) && row->answer != nullptr && !has_my_answer(row);
      });
    case OwnerVerdict::kLeaseLost:
      return expect_once("I4", "lost a lease that it had", [&](const Record* row) {
        return row != nullptr && (row->attempt != item.attempt || !IsAtWork(row->state));
      });
    case OwnerVerdict::kRecordNotFound:
      return expect_once("I6", "found no record although there was one",
                         [](const Record* row) { return row == nullptr; });
    case OwnerVerdict::kNeedsResolution:
      return expect_once("I12", "was told to ask for help",
                         [](const Record* row) { return row != nullptr && !IsFinal(row->state); });
  }
}

void Checker::CheckTold(const HeardCall& call, const LookupItem& item, const LookupResult& result) {
  const Record* const told = result.record.get();
  Expect(told == nullptr || told->key == item.key, "I10", item.key,
         "another key's record was told");
  Expect(WasOnce(call,
                 [&](const Record* row) {
                   if (told == nullptr || row == nullptr) return row == told;
                   return row->created_at == told->created_at && row->state == told->state &&
                          row->attempt == told->attempt &&
                          row->fencing_token == told->fencing_token && row->answer == told->answer;
                 }),
         "I6", item.key,
         absl::StrCat("call ", call.number, " was told of a record as it never was"));
}

bool Checker::WasSubmitted(const Record& record) const {
  return std::any_of(history_.calls().begin(), history_.calls().end(), [&](const HeardCall& call) {
    const auto* owner = std::get_if<OwnerItem>(&call.asked);
    return owner != nullptr && !owner->IsRenew() && owner->key == record.key &&
           owner->attempt == record.attempt && *owner->answer == *record.answer;
  });
}

bool Checker::SomebodyMayHave(const std::function<bool(const HeardCall&)>& asked_for) const {
  return std::any_of(history_.calls().begin(), history_.calls().end(), [&](const HeardCall& call) {
    const auto* status = std::get_if<absl::Status>(&call.told);
    return (status == nullptr || !IsDefinite(*status)) && asked_for(call);
  });
}

void Checker::CheckCauses(const RecordKey& key, const Versions& versions) {
  for (const Version& version : versions) {
    if (!version.row.has_value()) continue;
    const Record& row = *version.row;
    const bool was_begun = SomebodyMayHave([&](const HeardCall& call) {
      const auto* begin = std::get_if<BeginItem>(&call.asked);
      return begin != nullptr && begin->key == key && begin->attempt == row.attempt &&
             call.sent_at < version.since;
    });
    Expect(was_begun, "I11", key,
           absl::StrCat("attempt ", row.attempt_number,
                        " was started, and every Begin of it was told that nothing was done"));
    if (row.answer == nullptr) continue;
    const bool was_answered = SomebodyMayHave([&](const HeardCall& call) {
      const auto* owner = std::get_if<OwnerItem>(&call.asked);
      return owner != nullptr && !owner->IsRenew() && owner->key == key &&
             owner->attempt == row.attempt && *owner->answer == *row.answer;
    });
    Expect(was_answered, "I11", key,
           absl::StrCat("attempt ", row.attempt_number,
                        " has an answer, and whoever sent it was told that nothing was done"));
  }
}

}  // namespace

std::optional<Violation> CheckHistory(const History& history, const CheckTerms& terms) {
  return Checker(history, terms).Check();
}

}  // namespace idempotency
