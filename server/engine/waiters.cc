#include "server/engine/waiters.h"

#include <algorithm>

#include "server/base/check.h"

namespace idempotency {
namespace {

// A lease is over strictly after its end and margin. The floor keeps a lane from spinning should
// the database see the lease running on although the count here says it is over.
constexpr absl::Duration kAfterLease = absl::Milliseconds(1);
constexpr absl::Duration kShortestPark = absl::Milliseconds(5);
// Callers that left are sought at most this often, and only when a bound is reached.
constexpr absl::Duration kDepartedInterval = absl::Milliseconds(100);

bool IsAsTold(const Record& told, const Record& record) {
  return told.created_at == record.created_at && told.attempt_number == record.attempt_number &&
         told.state == record.state && told.lease_expires_at == record.lease_expires_at;
}

}  // namespace

Waiters::Waiters(const Policy& policy, size_t per_key_max, Admission* admission, Metrics* metrics)
    : policy_(policy), per_key_max_(per_key_max), admission_(admission), metrics_(metrics) {}

bool Waiters::Park(std::unique_ptr<BeginCall>& call, const BeginResult& told, absl::Duration now) {
  if (call->wait_ends_at <= now || call->HasLeft()) return false;
  if (!HasRoom(*call, now)) {
    metrics_->Add(Metric::kWaitsRefused);
    return false;
  }
  std::unique_ptr<KeyGroup>& group = groups_[call->item.key];
  if (group == nullptr) {
    group = std::make_unique<KeyGroup>();
  } else {
    lease_ends_.erase({group->lease_over_at, group.get()});
  }
  SetLeaseEnd(*group, told, now);
  wait_ends_.emplace(call->wait_ends_at, call.get());
  group->calls.push_back(std::move(call));
  return true;
}

bool Waiters::HasRoom(BeginCall& call, absl::Duration now) {
  const auto is_key_full = [&] {
    const auto group = groups_.find(call.item.key);
    return group == groups_.end() ? per_key_max_ == 0 : group->second->calls.size() >= per_key_max_;
  };
  if (is_key_full()) {
    WakeDeparted(now);
    if (is_key_full()) return false;
  }
  if (call.holds_wait_slot) return true;
  // Those whose callers left give their slots back when they are dropped, a batch later.
  if (!admission_->EnterWait()) {
    WakeDeparted(now);
    return false;
  }
  call.holds_wait_slot = true;
  call.wait_started_at = now;
  return true;
}

void Waiters::SetLeaseEnd(KeyGroup& group, const BeginResult& told, absl::Duration now) {
  group.told = told;
  group.told_at = now;
  const absl::Duration left =
      LeaseOverAfter(*told.record, told.reading, policy_) - told.reading.now + kAfterLease;
  group.lease_over_at = now + std::max(left, kShortestPark);
  lease_ends_.emplace(group.lease_over_at, &group);
}

void Waiters::Observe(const Record& record) {
  if (groups_.empty()) return;
  const auto group = groups_.find(record.key);
  if (group != groups_.end() && !IsAsTold(*group->second->told.record, record)) WakeGroup(group);
}

void Waiters::Wake(const RecordKey& key) {
  if (groups_.empty()) return;
  const auto group = groups_.find(key);
  if (group != groups_.end()) WakeGroup(group);
}

void Waiters::WakeGroup(Groups::iterator group) {
  lease_ends_.erase({group->second->lease_over_at, group->second.get()});
  for (std::unique_ptr<BeginCall>& call : group->second->calls) {
    wait_ends_.erase({call->wait_ends_at, call.get()});
    woken_.push_back(std::move(call));
  }
  groups_.erase(group);
}

void Waiters::WakeCall(BeginCall* call) {
  const auto group = groups_.find(call->item.key);
  IDEM_CHECK(group != groups_.end()) << "a parked call belongs to its key's group";
  auto& calls = group->second->calls;
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [call](const auto& parked) { return parked.get() == call; });
  IDEM_CHECK(found != calls.end()) << "a parked call belongs to its key's group";
  wait_ends_.erase({call->wait_ends_at, call});
  woken_.push_back(std::move(*found));
  calls.erase(found);
  if (calls.empty()) {
    lease_ends_.erase({group->second->lease_over_at, group->second.get()});
    groups_.erase(group);
  }
}

void Waiters::WakeDue(absl::Duration now) {
  while (!lease_ends_.empty() && lease_ends_.begin()->first <= now) {
    const KeyGroup& group = *lease_ends_.begin()->second;
    WakeGroup(groups_.find(group.told.record->key));
  }
  while (!wait_ends_.empty() && wait_ends_.begin()->first <= now) {
    WakeCall(wait_ends_.begin()->second);
  }
}

void Waiters::WakeDeparted(absl::Duration now) {
  if (now < departed_sought_at_ + kDepartedInterval) return;
  departed_sought_at_ = now;
  std::vector<BeginCall*> departed;
  for (const auto& [key, group] : groups_) {
    for (const auto& call : group->calls) {
      if (call->HasLeft()) departed.push_back(call.get());
    }
  }
  for (BeginCall* call : departed) WakeCall(call);
}

absl::Duration Waiters::NextDue() const {
  absl::Duration due = woken_.empty() ? absl::InfiniteDuration() : -absl::InfiniteDuration();
  if (!lease_ends_.empty()) due = std::min(due, lease_ends_.begin()->first);
  if (!wait_ends_.empty()) due = std::min(due, wait_ends_.begin()->first);
  return due;
}

Waiters::Dismissed Waiters::DismissAll(absl::Duration now) {
  Dismissed dismissed;
  for (auto& [key, group] : groups_) {
    BeginResult result = group->told;
    // The reading grown older, so that what is left of the lease is not overstated.
    result.reading.now += now - group->told_at;
    for (auto& call : group->calls) dismissed.emplace_back(std::move(call), result);
  }
  groups_.clear();
  wait_ends_.clear();
  lease_ends_.clear();
  return dismissed;
}

}  // namespace idempotency
