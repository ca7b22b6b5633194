#include "server/engine/lane.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "server/base/check.h"
#include "server/engine/coalesce.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

template <typename Call>
void Append(std::vector<std::unique_ptr<Call>>& from, std::deque<std::unique_ptr<Call>>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

// The group's calls in their order.
template <typename Call>
void AddAll(CallGroup<Call> group, std::vector<std::unique_ptr<Call>>& to) {
  to.push_back(std::move(group.first));
  std::move(group.followers.begin(), group.followers.end(), std::back_inserter(to));
}

bool IsNotRead(const absl::Status& status) {
  return !status.ok() && FaultOf(status) == Fault::kNotRead;
}

}  // namespace

Lane::Lane(const Policy& policy, const BatchLimits& limits, size_t waits_per_key_max,
           std::unique_ptr<Store> store, const Deps& deps)
    : policy_(policy),
      limits_(limits),
      store_(std::move(store)),
      deps_(deps),
      waiters_(policy, waits_per_key_max, deps.admission, deps.metrics),
      refused_(deps.metrics),
      meter_(deps.clock, deps.metrics, deps.number) {}

bool Lane::Step() {
  const bool is_closed = TakeIncoming();
  const absl::Duration now = deps_.clock->BootTime();
  if (is_closed) DismissWaiters(now);
  WakeWaiters(now);
  SetAsideSlowKeys();
  RunOwners();
  RunBegins();
  RunLookups();
  if (!is_closed) ProbeWaiting();
  refused_.Keep(store_.get());
  return !is_closed || incoming_.has_more || !owners_.empty() || !begins_.empty() ||
         !lookups_.empty() || !waiters_.empty() || !refused_.empty();
}

absl::Duration Lane::NextDue() const {
  if (!owners_.empty() || !begins_.empty() || !lookups_.empty() || !refused_.empty()) {
    return -absl::InfiniteDuration();
  }
  return waiters_.NextDue();
}

void Lane::Run() {
  while (Step()) {
    const absl::Duration due = NextDue();
    // Without waits and leftovers the lane sleeps without a timer.
    deps_.queue->WaitForWork(due == absl::InfiniteDuration() ? due : due - deps_.clock->BootTime());
  }
}

bool Lane::TakeIncoming() {
  // Of Begins and Lookups a batch's worth: the others stay where merchants take turns.
  const auto missing = [this](const auto& pending) {
    return limits_.max_items - std::min(limits_.max_items, pending.size());
  };
  deps_.queue->Take(&incoming_, missing(begins_), missing(lookups_));
  Append(incoming_.owners, owners_);
  Append(incoming_.begins, begins_);
  Append(incoming_.lookups, lookups_);
  for (const RecordKey& key : incoming_.begins_left_slow_lane) {
    slow_begin_keys_.erase(key);
    waiters_.Wake(key);
  }
  incoming_.begins_left_slow_lane.clear();
  for (const RecordKey& key : incoming_.left_slow_lane) {
    slow_keys_.erase(key);
    slow_begin_keys_.erase(key);
    waiters_.Wake(key);
  }
  incoming_.left_slow_lane.clear();
  return incoming_.closed;
}

void Lane::WakeWaiters(absl::Duration now) {
  waiters_.WakeDue(now);
  // They stay first: that they make a batch of their own has an end, waking may have none.
  if (not_read_[static_cast<size_t>(CallKind::kBegin)] > 0) return;
  std::vector<std::unique_ptr<BeginCall>> woken = waiters_.TakeWoken();
  ReturnCalls(woken, begins_);
}

void Lane::DismissWaiters(absl::Duration now) {
  for (auto& [call, result] : waiters_.DismissAll(now)) {
    deps_.answers->Give(std::move(call), std::move(result));
  }
}

void Lane::SetAsideSlowKeys() {
  if (!slow_keys_.empty()) SetAside(owners_, slow_keys_);
  if (!slow_begin_keys_.empty()) SetAside(begins_, slow_begin_keys_);
}

template <typename Call>
void Lane::SetAside(std::deque<std::unique_ptr<Call>>& pending,
                    const absl::flat_hash_set<RecordKey>& keys) {
  std::deque<std::unique_ptr<Call>> kept;
  for (std::unique_ptr<Call>& call : pending) {
    const size_t bytes = call->bytes;
    if (!keys.contains(call->item.key)) {
      kept.push_back(std::move(call));
    } else if (deps_.slow_lane->TryAdd(call)) {
      deps_.queue->Left(1, bytes);
    } else if constexpr (std::is_same_v<Call, OwnerCall>) {
      // An accepted Complete is executed: then by this lane, although it may stop for the lock.
      kept.push_back(std::move(call));
    } else {
      deps_.queue->Left(1, bytes);
      deps_.answers->Give(std::move(call), MakeFault(Fault::kOverloaded, "the slow lane is full"));
    }
  }
  pending = std::move(kept);
}

void Lane::MoveToSlowLane(std::unique_ptr<OwnerCall> call,
                          std::vector<std::unique_ptr<OwnerCall>>& again) {
  RecordKey key = call->item.key;
  const absl::Duration now = deps_.clock->BootTime();
  call->MeetLock(now);
  if (deps_.slow_lane->TryAdd(call)) {
    slow_keys_.insert(std::move(key));
  } else if (!call->IsDroppable() && !call->IsOutOfPatience(now)) {
    again.push_back(std::move(call));
  } else {
    deps_.answers->Give(std::move(call), RowIsLocked());
  }
}

void Lane::MoveToSlowLane(std::unique_ptr<BeginCall> call) {
  RecordKey key = call->item.key;
  if (deps_.slow_lane->TryAdd(call)) {
    slow_keys_.insert(key);
    slow_begin_keys_.insert(std::move(key));
  } else {
    deps_.answers->Give(std::move(call), RowIsLocked());
  }
}

template <typename Call>
CallBatch<Call> Lane::TakeBatch(std::deque<std::unique_ptr<Call>>& pending, Repeats repeats,
                                CallKind kind) {
  const absl::Duration now = deps_.clock->BootTime();
  BatchLimits limits = limits_;
  const size_t not_read = std::exchange(not_read_[static_cast<size_t>(kind)], 0);
  if (not_read > 0) limits.max_items = std::min(limits.max_items, not_read);
  CallBatch<Call> batch = FormBatch(pending, limits, repeats, now);
  deps_.queue->Left(batch.taken_items, batch.taken_bytes);
  for (auto& [call, reason] : batch.dropped) deps_.answers->Drop(std::move(call), reason);
  batch.dropped.clear();
  if (!batch.groups.empty()) meter_.CountQueueWaits(kind, batch, now);
  return batch;
}

template <typename Call>
void Lane::ReturnCalls(std::vector<std::unique_ptr<Call>>& calls,
                       std::deque<std::unique_ptr<Call>>& pending) {
  size_t bytes = 0;
  for (const std::unique_ptr<Call>& call : calls) bytes += call->bytes;
  deps_.queue->CameBack(calls.size(), bytes);
  ReturnToFront(calls, pending);
}

void Lane::RunOwners() {
  CallBatch<OwnerCall> batch = TakeBatch(owners_, Repeats::kWait, CallKind::kOwner);
  if (batch.groups.empty()) return;
  const BatchWatch watch(*store_, deps_.clock);
  BatchResults<OwnerResult> results = meter_.Measure(
      CallKind::kOwner, batch.groups.size(), [&] { return store_->OwnerBatch(batch.Items()); });
  watch.End(deps_.cache);
  IDEM_CHECK(results.size() == batch.groups.size()) << "store broke its contract";
  std::vector<std::unique_ptr<OwnerCall>> again;
  std::vector<std::unique_ptr<OwnerCall>> not_read;
  for (size_t i = 0; i < results.size(); ++i) {
    if (IsNotRead(results[i].status())) {
      not_read.push_back(std::move(batch.groups[i].first));
      continue;
    }
    SettleOwner(std::move(batch.groups[i].first), std::move(results[i]), again);
  }
  // To the front, before later calls of their keys. It costs the lane a lock's timeout a batch, as
  // long as the slow lane is full: dearer than anything but a lost Complete.
  ReturnCalls(again, owners_);
  not_read_[static_cast<size_t>(CallKind::kOwner)] = not_read.size();
  ReturnCalls(not_read, owners_);
}

void Lane::SettleOwner(std::unique_ptr<OwnerCall> call, absl::StatusOr<OwnerResult> result,
                       std::vector<std::unique_ptr<OwnerCall>>& again) {
  if (result.ok()) {
    deps_.answers->Report(*call, *result);
    if (IsEvidence(call->item, *result)) refused_.Add(call->item);
    deps_.cache->Learn(call->item.key, *result, call->hash);
    if (result->record != nullptr) {
      waiters_.Observe(*result->record);
    } else {
      waiters_.Wake(call->item.key);
    }
  } else if (FaultOf(result.status()) == Fault::kLockTimeout) {
    return MoveToSlowLane(std::move(call), again);
  } else if (FaultOf(result.status()) == Fault::kCommitUnknown) {
    deps_.cache->Forget(call->item.key, call->hash);
    waiters_.Wake(call->item.key);
  }
  deps_.answers->Give(std::move(call), std::move(result));
}

void Lane::RunBegins() {
  // Again, because the owners' batch may just have met a locked row or changed a waiter's record.
  SetAsideSlowKeys();
  CallBatch<BeginCall> batch = TakeBatch(begins_, Repeats::kFollow, CallKind::kBegin);
  if (batch.groups.empty()) return;
  const BatchWatch watch(*store_, deps_.clock);
  BatchResults<BeginResult> results = meter_.Measure(
      CallKind::kBegin, batch.groups.size(), [&] { return store_->BeginBatch(batch.Items()); });
  const ReadTerms terms = watch.End(deps_.cache);
  IDEM_CHECK(results.size() == batch.groups.size()) << "store broke its contract";
  std::vector<std::unique_ptr<BeginCall>> again;
  std::vector<std::unique_ptr<BeginCall>> not_read;
  for (size_t i = 0; i < results.size(); ++i) {
    if (IsNotRead(results[i].status())) {
      ++not_read_[static_cast<size_t>(CallKind::kBegin)];
      AddAll(std::move(batch.groups[i]), not_read);
    } else {
      SettleBegins(std::move(batch.groups[i]), std::move(results[i]), terms, again);
    }
  }
  ReturnCalls(again, begins_);
  ReturnCalls(not_read, begins_);
}

void Lane::SettleBegins(CallGroup<BeginCall> group, absl::StatusOr<BeginResult> result,
                        const ReadTerms& terms, std::vector<std::unique_ptr<BeginCall>>& again) {
  if (!result.ok()) return SettleUndecided(std::move(group), std::move(result).status(), again);
  // After the store returned, so that no lease is taken for over too early.
  const absl::Duration now = deps_.clock->BootTime();
  deps_.answers->Report(*group.first, *result);
  deps_.cache->Learn(*result, group.first->hash, terms);
  waiters_.Observe(*result->record);
  AnswerOrPark(std::move(group.first), *result, now);
  for (auto& follower : group.followers) {
    std::optional<BeginResult> answer = Coalesce(follower->item, *result, policy_);
    if (!answer.has_value()) {
      again.push_back(std::move(follower));
      continue;
    }
    deps_.metrics->Add(Metric::kCoalesced);
    AnswerOrPark(std::move(follower), *std::move(answer), now);
  }
}

// What the first one met says nothing about the others, but that they must not stop this lane too.
void Lane::SettleUndecided(CallGroup<BeginCall> group, absl::Status fault,
                           std::vector<std::unique_ptr<BeginCall>>& again) {
  if (FaultOf(fault) == Fault::kStoreUnavailable) {
    return SettleUnavailable(std::move(group), std::move(fault), again);
  }
  if (FaultOf(fault) == Fault::kLockTimeout) {
    MoveToSlowLane(std::move(group.first));
  } else {
    if (FaultOf(fault) == Fault::kCommitUnknown) {
      deps_.cache->Forget(group.first->item.key, group.first->hash);
      waiters_.Wake(group.first->item.key);
    }
    deps_.answers->Give(std::move(group.first), std::move(fault));
  }
  std::move(group.followers.begin(), group.followers.end(), std::back_inserter(again));
}

// Nothing was done, for the database is away. Those that waited wait on: it may be back before
// their time is over, and all of them trying would keep the lane from everything else.
void Lane::SettleUnavailable(CallGroup<BeginCall> group, absl::Status fault,
                             std::vector<std::unique_ptr<BeginCall>>& again) {
  const absl::Duration now = deps_.clock->BootTime();
  if (!waiters_.ParkAgain(group.first, now)) {
    deps_.answers->Give(std::move(group.first), std::move(fault));
  }
  for (std::unique_ptr<BeginCall>& follower : group.followers) {
    if (!waiters_.ParkAgain(follower, now)) again.push_back(std::move(follower));
  }
}

void Lane::AnswerOrPark(std::unique_ptr<BeginCall> call, BeginResult result, absl::Duration now) {
  if (result.verdict == BeginVerdict::kInProgress && waiters_.Park(call, result, now)) return;
  deps_.answers->Give(std::move(call), std::move(result));
}

void Lane::ProbeWaiting() {
  const absl::Duration sent = deps_.clock->BootTime();
  const std::vector<const LookupItem*> items = waiters_.DueProbes(sent, limits_.max_items);
  if (items.empty()) return;
  deps_.metrics->Add(Metric::kWaitProbes);
  deps_.metrics->Add(Metric::kWaitProbedKeys, static_cast<int64_t>(items.size()));
  const BatchResults<ProbeResult> results = store_->ProbeBatch(items);
  IDEM_CHECK(results.size() == items.size()) << "store broke its contract";
  waiters_.Probed(results, sent, deps_.clock->BootTime());
}

void Lane::RunLookups() {
  CallBatch<LookupCall> batch = TakeBatch(lookups_, Repeats::kFollow, CallKind::kLookup);
  if (batch.groups.empty()) return;
  const BatchWatch watch(*store_, deps_.clock);
  BatchResults<LookupResult> results = meter_.Measure(
      CallKind::kLookup, batch.groups.size(), [&] { return store_->LookupBatch(batch.Items()); });
  watch.End(deps_.cache);
  IDEM_CHECK(results.size() == batch.groups.size()) << "store broke its contract";
  std::vector<std::unique_ptr<LookupCall>> not_read;
  for (size_t i = 0; i < results.size(); ++i) {
    CallGroup<LookupCall>& group = batch.groups[i];
    if (IsNotRead(results[i].status())) {
      ++not_read_[static_cast<size_t>(CallKind::kLookup)];
      AddAll(std::move(group), not_read);
      continue;
    }
    if (results[i].ok()) {
      deps_.cache->Learn(group.first->item.key, *results[i], group.first->hash);
      if (results[i]->record != nullptr) waiters_.Observe(*results[i]->record);
    }
    for (auto& follower : group.followers) deps_.answers->Give(std::move(follower), results[i]);
    deps_.answers->Give(std::move(group.first), std::move(results[i]));
  }
  ReturnCalls(not_read, lookups_);
}

}  // namespace idempotency
