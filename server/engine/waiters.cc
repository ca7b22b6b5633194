#include "server/engine/waiters.h"

#include <algorithm>

#include "server/base/check.h"

namespace idempotency {
namespace {

// A lease is over strictly after its end and margin.
constexpr absl::Duration kAfterLease = absl::Milliseconds(1);
// Should the database see the lease running on although the count here says it is over (its clock
// was set, or expiry pauses), the waiters ask again ever less often, down to this.
constexpr absl::Duration kLongestFloor = absl::Milliseconds(250);
// Callers that left are sought at most this often, and only when a bound is reached.
constexpr absl::Duration kDepartedInterval = absl::Milliseconds(100);
// After a probe the lane does other work for this many times as long as the probe took, so that
// thousands of waits cost other callers a quarter of the lane at the most.
constexpr int kProbeRest = 3;

RecordSign SignOf(const Record& record) {
  return {record.created_at, record.state, record.attempt_number, record.lease_expires_at};
}

// The next multiple of the interval, so that all keys of a lane are due together, in one statement.
absl::Duration NextTick(absl::Duration now, absl::Duration interval) {
  return absl::Floor(now, interval) + interval;
}

}  // namespace

Waiters::Waiters(const Policy& policy, size_t per_key_max, Admission* admission, Metrics* metrics)
    : policy_(policy), per_key_max_(per_key_max), admission_(admission), metrics_(metrics) {}

bool Waiters::Park(std::unique_ptr<BeginCall>& call, const BeginResult& told, absl::Duration now) {
  if (!MayWait(*call, now)) return false;
  call->told = told;
  call->told_at = now;
  absl::Duration lease_over_at = LeaseOverAt(*call);
  if (lease_over_at < now + call->shortest_park) {
    lease_over_at = now + call->shortest_park;
    call->shortest_park = std::min(2 * call->shortest_park, kLongestFloor);
  } else {
    call->shortest_park = kShortestPark;
  }
  Join(call, lease_over_at, now);
  return true;
}

bool Waiters::ParkAgain(std::unique_ptr<BeginCall>& call, absl::Duration now) {
  if (!call->told.has_value() || !MayWait(*call, now)) return false;
  Join(call, std::max(LeaseOverAt(*call), now + kLateProbeInterval), now);
  return true;
}

bool Waiters::MayWait(BeginCall& call, absl::Duration now) {
  if (call.wait_ends_at <= now || call.HasLeft()) return false;
  if (HasRoom(call, now)) return true;
  metrics_->Add(Metric::kWaitsRefused);
  return false;
}

absl::Duration Waiters::LeaseOverAt(const BeginCall& call) const {
  const Reading& reading = call.told->reading;
  return call.told_at + (LeaseOverAfter(*call.told->record, reading, policy_) - reading.now) +
         kAfterLease;
}

void Waiters::Join(std::unique_ptr<BeginCall>& call, absl::Duration lease_over_at,
                   absl::Duration now) {
  std::unique_ptr<KeyGroup>& group = groups_[call->item.key];
  if (group == nullptr) {
    group = std::make_unique<KeyGroup>();
    group->item.key = call->item.key;
    group->number = ++last_number_;
  }
  group->told = *call->told;
  group->told_at = call->told_at;
  SetLeaseEnd(*group, lease_over_at);
  group->young_until = std::max(group->young_until, call->wait_started_at + kYoung);
  const absl::Duration interval = now < group->young_until ? kProbeInterval : kLateProbeInterval;
  SetProbe(*group, std::min(group->probe_at, NextTick(now, interval)));
  call->park_number = ++last_number_;
  wait_ends_.emplace(call->wait_ends_at, call->park_number, call.get());
  group->calls.push_back(std::move(call));
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
  if (!admission_->EnterWait(call.item.key.merchant_id)) {
    WakeDeparted(now);
    return false;
  }
  call.holds_wait_slot = true;
  call.wait_started_at = now;
  return true;
}

void Waiters::SetLeaseEnd(KeyGroup& group, absl::Duration at) {
  if (group.lease_over_at == at) return;
  lease_ends_.erase({group.lease_over_at, group.number, &group});
  group.lease_over_at = at;
  lease_ends_.emplace(at, group.number, &group);
}

void Waiters::SetProbe(KeyGroup& group, absl::Duration at) {
  if (group.probe_at == at) return;
  probes_.erase({group.probe_at, group.number, &group});
  group.probe_at = at;
  probes_.emplace(at, group.number, &group);
}

void Waiters::Observe(const Record& record) {
  if (groups_.empty()) return;
  const auto group = groups_.find(record.key);
  if (group != groups_.end() && SignOf(*group->second->told.record) != SignOf(record)) {
    WakeGroup(group, Metric::kWaitWokenHere);
  }
}

void Waiters::Wake(const RecordKey& key) {
  if (groups_.empty()) return;
  const auto group = groups_.find(key);
  if (group != groups_.end()) WakeGroup(group, Metric::kWaitWokenHere);
}

void Waiters::RemoveGroup(Groups::iterator group) {
  KeyGroup& gone = *group->second;
  lease_ends_.erase({gone.lease_over_at, gone.number, &gone});
  probes_.erase({gone.probe_at, gone.number, &gone});
  groups_.erase(group);
}

void Waiters::WakeGroup(Groups::iterator group, Metric why) {
  metrics_->Add(why, static_cast<int64_t>(group->second->calls.size()));
  for (std::unique_ptr<BeginCall>& call : group->second->calls) {
    wait_ends_.erase({call->wait_ends_at, call->park_number, call.get()});
    woken_.push_back(std::move(call));
  }
  RemoveGroup(group);
}

void Waiters::WakeCall(BeginCall* call) {
  const auto group = groups_.find(call->item.key);
  IDEM_CHECK(group != groups_.end()) << "a parked call belongs to its key's group";
  auto& calls = group->second->calls;
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [call](const auto& parked) { return parked.get() == call; });
  IDEM_CHECK(found != calls.end()) << "a parked call belongs to its key's group";
  wait_ends_.erase({call->wait_ends_at, call->park_number, call});
  woken_.push_back(std::move(*found));
  calls.erase(found);
  if (calls.empty()) RemoveGroup(group);
}

void Waiters::WakeDue(absl::Duration now) {
  while (!lease_ends_.empty() && std::get<0>(*lease_ends_.begin()) <= now) {
    const KeyGroup& group = *std::get<2>(*lease_ends_.begin());
    WakeGroup(groups_.find(group.item.key), Metric::kWaitWokenByTime);
  }
  while (!wait_ends_.empty() && std::get<0>(*wait_ends_.begin()) <= now) {
    metrics_->Add(Metric::kWaitWokenByTime);
    WakeCall(std::get<2>(*wait_ends_.begin()));
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
  std::sort(departed.begin(), departed.end(), [](const BeginCall* left, const BeginCall* right) {
    return left->park_number < right->park_number;
  });
  for (BeginCall* call : departed) WakeCall(call);
}

std::vector<const LookupItem*> Waiters::DueProbes(absl::Duration now, size_t max) {
  probed_.clear();
  if (now < no_probe_before_) return {};
  for (const auto& [at, number, group] : probes_) {
    if (at > now || probed_.size() == max) break;
    probed_.push_back(group);
  }
  std::sort(probed_.begin(), probed_.end(), [](const KeyGroup* left, const KeyGroup* right) {
    return left->item.key < right->item.key;
  });
  std::vector<const LookupItem*> items;
  items.reserve(probed_.size());
  for (const KeyGroup* group : probed_) items.push_back(&group->item);
  return items;
}

void Waiters::Probed(absl::Span<const absl::StatusOr<ProbeResult>> results, absl::Duration sent,
                     absl::Duration now) {
  IDEM_CHECK(results.size() == probed_.size()) << "the results are of another probe";
  bool failed = false;
  for (size_t i = 0; i < results.size(); ++i) {
    KeyGroup& group = *probed_[i];
    if (results[i].ok() && results[i]->sign != SignOf(*group.told.record)) {
      WakeGroup(groups_.find(group.item.key), Metric::kWaitWokenByProbe);
      continue;
    }
    failed |= !results[i].ok();
    SetProbe(group, NextTick(now, now < group.young_until ? kProbeInterval : kLateProbeInterval));
  }
  probed_.clear();
  if (failed) {
    metrics_->Add(Metric::kWaitProbesFailed);
    probe_pause_ = std::clamp(2 * probe_pause_, kFirstProbePause, kLongestProbePause);
    no_probe_before_ = now + probe_pause_;
  } else {
    probe_pause_ = absl::ZeroDuration();
    no_probe_before_ = now + kProbeRest * (now - sent);
  }
}

absl::Duration Waiters::NextDue() const {
  absl::Duration due = woken_.empty() ? absl::InfiniteDuration() : -absl::InfiniteDuration();
  if (!lease_ends_.empty()) due = std::min(due, std::get<0>(*lease_ends_.begin()));
  if (!wait_ends_.empty()) due = std::min(due, std::get<0>(*wait_ends_.begin()));
  if (!probes_.empty()) {
    due = std::min(due, std::max(std::get<0>(*probes_.begin()), no_probe_before_));
  }
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
  std::sort(dismissed.begin(), dismissed.end(), [](const auto& left, const auto& right) {
    return left.first->park_number < right.first->park_number;
  });
  groups_.clear();
  wait_ends_.clear();
  lease_ends_.clear();
  probes_.clear();
  return dismissed;
}

}  // namespace idempotency
