// What happened in one run of the simulation: what callers asked and were told, and every state in
// which the database's rows were. Both on one scale of ticks: each event has its own.
//
// Plain values, for one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/record/record.h"
#include "server/store/store.h"
#include "tests/util/model_store.h"

namespace idempotency {

using Tick = int64_t;

// One call of a caller.
struct HeardCall {
  size_t number = 0;
  size_t replica = 0;
  std::variant<BeginItem, OwnerItem, LookupItem> asked;
  Tick sent_at = 0;
  absl::Duration sent_time;  // true time
  // Absent: not answered.
  std::optional<Tick> answered_at;
  int answers = 0;
  std::variant<std::monostate, absl::Status, BeginResult, OwnerResult, LookupResult> told;

  const RecordKey& key() const {
    return std::visit([](const auto& item) -> const RecordKey& { return item.key; }, asked);
  }
};

// A row from one tick on until the next version's.
struct Version {
  Tick since = 0;
  absl::Duration time;  // true time
  std::optional<Record> row;
  // With an attempt at work: until when its owner may rely on the lease, at the latest. True time,
  // counted from before the call was sent that got it.
  absl::Duration lease_promised_until;
};

// What was found to be wrong.
struct Violation {
  std::string invariant;  // "I4"
  std::string what;
  RecordKey key;
};

class History {
 public:
  // `database` must outlive this.
  explicit History(ModelDatabase* database) : database_(database) {}

  // The next tick.
  Tick Now() { return ++tick_; }

  // References stay valid.
  HeardCall& Send(size_t replica, std::variant<BeginItem, OwnerItem, LookupItem> asked,
                  absl::Duration time);
  template <typename Result>
  void Hear(HeardCall& call, absl::StatusOr<Result> result) {
    ++call.answers;
    call.answered_at = Now();
    if (result.ok()) {
      call.told = *std::move(result);
    } else {
      call.told = std::move(result).status();
    }
  }
  // The row may have changed: looks, and notes what it finds. To be called before anything else can
  // happen to it.
  void Look(const RecordKey& key, absl::Duration time);
  void LookAtAll(absl::Duration time);

  const std::deque<HeardCall>& calls() const { return calls_; }
  // Each key's begins with a version without a row.
  const std::map<RecordKey, std::vector<Version>>& versions() const { return versions_; }

 private:
  // Sent earliest of those calls that may be what gave the attempt its lease.
  absl::Duration GrantSentAt(const Record& row) const;

  ModelDatabase* const database_;
  Tick tick_ = 0;
  std::deque<HeardCall> calls_;
  std::map<RecordKey, std::vector<Version>> versions_;
};

}  // namespace idempotency
