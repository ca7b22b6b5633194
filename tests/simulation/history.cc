#include "tests/simulation/history.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"

namespace idempotency {
namespace {

bool SameRow(const Record& left, const Record& right) {
  return left.created_at == right.created_at && left.state == right.state &&
         left.attempt == right.attempt && left.attempt_number == right.attempt_number &&
         left.fencing_token == right.fencing_token &&
         left.lease_expires_at == right.lease_expires_at &&
         left.lease_duration == right.lease_duration && left.answer == right.answer &&
         left.fingerprint == right.fingerprint &&
         left.refused_outcome.has_value() == right.refused_outcome.has_value();
}

bool IsOfAttempt(const HeardCall& call, const Record& row) {
  if (const auto* begin = std::get_if<BeginItem>(&call.asked)) {
    return begin->key == row.key && begin->attempt == row.attempt;
  }
  const auto* owner = std::get_if<OwnerItem>(&call.asked);
  return owner != nullptr && owner->IsRenew() && owner->key == row.key &&
         owner->attempt == row.attempt;
}

}  // namespace

HeardCall& History::Send(size_t replica, std::variant<BeginItem, OwnerItem, LookupItem> asked,
                         absl::Duration time) {
  HeardCall& call = calls_.emplace_back();
  call.number = calls_.size();
  call.replica = replica;
  call.asked = std::move(asked);
  call.sent_at = Now();
  call.sent_time = time;
  if (versions_[call.key()].empty()) versions_[call.key()].push_back({});
  return call;
}

absl::Duration History::GrantSentAt(const Record& row) const {
  absl::Duration earliest = absl::InfiniteDuration();
  for (const HeardCall& call : calls_) {
    if (!call.answered_at.has_value() && IsOfAttempt(call, row)) {
      earliest = std::min(earliest, call.sent_time);
    }
  }
  IDEM_CHECK(earliest != absl::InfiniteDuration()) << "a lease that nobody asked for";
  return earliest;
}

void History::Look(const RecordKey& key, absl::Duration time) {
  std::optional<Record> row = database_->Find(key);
  const std::vector<Version>& known = versions_[key];
  const Version& last = known.back();
  if (!row.has_value() && !last.row.has_value()) return;
  if (row.has_value() && last.row.has_value() && SameRow(*row, *last.row)) return;
  Version next{.since = Now(), .time = time, .row = std::move(row)};
  if (next.row.has_value()) {
    const bool is_same_attempt = last.row.has_value() &&
                                 last.row->created_at == next.row->created_at &&
                                 last.row->attempt_number == next.row->attempt_number;
    const bool was_granted =
        !is_same_attempt || last.row->lease_expires_at < next.row->lease_expires_at;
    next.lease_promised_until =
        is_same_attempt ? last.lease_promised_until : -absl::InfiniteDuration();
    if (was_granted) {
      // A Renew may ask for less than the attempt has had before.
      const absl::Duration lease =
          std::min(next.row->lease_duration, next.row->lease_expires_at - database_->Now());
      next.lease_promised_until =
          std::max(next.lease_promised_until, GrantSentAt(*next.row) + lease);
    }
  }
  versions_[key].push_back(std::move(next));
}

void History::LookAtAll(absl::Duration time) {
  for (const auto& [key, versions] : versions_) Look(key, time);
}

}  // namespace idempotency
