#include "server/engine/slow_lane.h"

#include <algorithm>
#include <optional>

#include "server/base/check.h"
#include "server/engine/coalesce.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

bool IsLockTimeout(const absl::Status& status) {
  return !status.ok() && FaultOf(status) == Fault::kLockTimeout;
}

// The batch's other answers left it no room: it is in the next try, at once.
bool IsNotRead(const absl::Status& status) {
  return !status.ok() && FaultOf(status) == Fault::kNotRead;
}

}  // namespace

SlowLane::SlowLane(const Policy& policy, size_t batch_max_items, size_t max_bytes,
                   std::unique_ptr<Store> store, const Deps& deps)
    : policy_(policy),
      batch_max_items_(batch_max_items),
      max_bytes_(max_bytes),
      store_(std::move(store)),
      deps_(deps),
      refused_(deps.metrics),
      meter_(deps.clock, deps.metrics, kSlowLaneNumber) {}

bool SlowLane::TryAdd(std::unique_ptr<OwnerCall>& call) {
  return TryAddTo(&Incoming::owners, Room::kReserved, call);
}

bool SlowLane::TryAdd(std::unique_ptr<BeginCall>& call) {
  return TryAddTo(&Incoming::begins, Room::kShared, call);
}

template <typename Call>
bool SlowLane::TryAddTo(std::vector<std::unique_ptr<Call>> Incoming::*calls, Room room,
                        std::unique_ptr<Call>& call) {
  {
    MutexLock lock(&mu_);
    IDEM_CHECK(!incoming_.closed) << "the lanes stop before the slow lane";
    if (calls_.load(std::memory_order_relaxed) >= LimitOf(room, kMaxCalls) ||
        bytes_.load(std::memory_order_relaxed) + call->bytes > LimitOf(room, max_bytes_)) {
      deps_.metrics->Add(Metric::kSlowLaneFull);
      return false;
    }
    calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(call->bytes, std::memory_order_relaxed);
    deps_.metrics->Add(Metric::kSlowLane);
    deps_.metrics->Add(Metric::kSlowLaneCalls);
    deps_.metrics->Add(Metric::kSlowLaneBytes, static_cast<int64_t>(call->bytes));
    (incoming_.*calls).push_back(std::move(call));
  }
  work_.NotifyOne();
  return true;
}

void SlowLane::Close() {
  MutexLock lock(&mu_);
  incoming_.closed = true;
  work_.NotifyAll();
}

void SlowLane::Left(size_t bytes) {
  calls_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  deps_.metrics->Add(Metric::kSlowLaneCalls, -1);
  deps_.metrics->Add(Metric::kSlowLaneBytes, -static_cast<int64_t>(bytes));
}

template <typename Call>
void SlowLane::Answer(std::unique_ptr<Call> call, absl::StatusOr<typename Call::Result> result) {
  Left(call->bytes);
  deps_.answers->Give(std::move(call), std::move(result));
}

SlowLane::KeyCalls& SlowLane::Find(const RecordKey& key, size_t hash, absl::Duration now) {
  const auto [found, is_new] = keys_.try_emplace(key);
  if (is_new) {
    found->second.hash = hash;
    found->second.try_at = now;
  }
  return found->second;
}

bool SlowLane::TakeIncoming(absl::Duration now) {
  Incoming incoming;
  {
    MutexLock lock(&mu_);
    std::swap(incoming, incoming_);
    incoming_.closed = incoming.closed;
  }
  for (auto& call : incoming.owners) {
    call->MeetLock(now);
    const absl::Duration give_up_at = call->give_up_at;
    KeyCalls& key = Find(call->item.key, call->hash, now);
    key.owners.push_back({std::move(call), give_up_at});
  }
  for (auto& call : incoming.begins) {
    const absl::Duration give_up_at = call->terms.deadline;
    KeyCalls& key = Find(call->item.key, call->hash, now);
    key.has_begins_here = true;
    key.begins.push_back({std::move(call), give_up_at});
  }
  return incoming.closed;
}

template <typename Call>
void SlowLane::GiveUp(std::deque<Held<Call>>& held, bool is_last_chance_over, absl::Duration now) {
  std::deque<Held<Call>> kept;
  for (Held<Call>& one : held) {
    if (one.call->IsDroppable() && one.call->HasLeft()) {
      Left(one.call->bytes);
      deps_.answers->Drop(std::move(one.call), Fault::kCancelled);
    } else if (one.give_up_at <= now || (is_last_chance_over && one.call->IsDroppable())) {
      Answer(std::move(one.call), RowIsLocked());
    } else {
      kept.push_back(std::move(one));
    }
  }
  held = std::move(kept);
}

std::vector<SlowLane::KeyCalls*> SlowLane::DueKeys(absl::Duration now) {
  std::vector<KeyCalls*> due;
  for (auto& [name, key] : keys_) {
    if (key.try_at > now || key.empty()) continue;
    if (due.size() == batch_max_items_) break;
    key.was_tried = true;
    key.is_locked = false;
    due.push_back(&key);
  }
  return due;
}

void SlowLane::RunOwners(const std::vector<KeyCalls*>& due) {
  std::vector<KeyCalls*> keys;
  std::vector<const OwnerItem*> items;
  for (KeyCalls* key : due) {
    if (key->owners.empty()) continue;
    keys.push_back(key);
    items.push_back(&key->owners.front().call->item);
  }
  if (items.empty()) return;
  const BatchWatch watch(*store_, deps_.clock);
  BatchResults<OwnerResult> results =
      meter_.Measure(CallKind::kOwner, items.size(), [&] { return store_->OwnerBatch(items); });
  watch.End(deps_.cache);
  IDEM_CHECK(results.size() == items.size()) << "store broke its contract";
  for (size_t i = 0; i < keys.size(); ++i) {
    if (IsLockTimeout(results[i].status())) {
      keys[i]->is_locked = true;
      continue;
    }
    if (IsNotRead(results[i].status())) continue;
    std::unique_ptr<OwnerCall> call = std::move(keys[i]->owners.front().call);
    keys[i]->owners.pop_front();
    if (results[i].ok()) {
      deps_.answers->Report(*call, *results[i]);
      if (IsEvidence(call->item, *results[i])) refused_.Add(call->item);
      deps_.cache->Learn(call->item.key, *results[i], call->hash);
    } else if (FaultOf(results[i].status()) == Fault::kCommitUnknown) {
      deps_.cache->Forget(call->item.key, call->hash);
    }
    Answer(std::move(call), std::move(results[i]));
  }
}

void SlowLane::RunBegins(const std::vector<KeyCalls*>& due) {
  std::vector<KeyCalls*> keys;
  std::vector<const BeginItem*> items;
  for (KeyCalls* key : due) {
    // Also when the owner's call is locked: this one may need no more than a plain read.
    if (key->begins.empty()) continue;
    keys.push_back(key);
    items.push_back(&key->begins.front().call->item);
  }
  if (items.empty()) return;
  const BatchWatch watch(*store_, deps_.clock);
  BatchResults<BeginResult> results =
      meter_.Measure(CallKind::kBegin, items.size(), [&] { return store_->BeginBatch(items); });
  const ReadTerms terms = watch.End(deps_.cache);
  IDEM_CHECK(results.size() == items.size()) << "store broke its contract";
  for (size_t i = 0; i < keys.size(); ++i) {
    if (IsLockTimeout(results[i].status())) {
      keys[i]->is_locked = true;
      continue;
    }
    if (IsNotRead(results[i].status())) continue;
    std::unique_ptr<BeginCall> call = std::move(keys[i]->begins.front().call);
    keys[i]->begins.pop_front();
    if (!results[i].ok()) {
      if (FaultOf(results[i].status()) == Fault::kCommitUnknown) {
        deps_.cache->Forget(call->item.key, call->hash);
      }
      Answer(std::move(call), std::move(results[i]));
      continue;
    }
    deps_.answers->Report(*call, *results[i]);
    deps_.cache->Learn(*results[i], call->hash, terms);
    AnswerOrLetWait(*keys[i], std::move(call), *results[i]);
    SettleBegins(*keys[i], *results[i]);
  }
}

// Those behind the first, from its row; one that needs a write is the first of the next try.
void SlowLane::SettleBegins(KeyCalls& key, const BeginResult& first) {
  std::deque<Held<BeginCall>> held = std::move(key.begins);
  key.begins.clear();
  for (Held<BeginCall>& one : held) {
    std::optional<BeginResult> result = Coalesce(one.call->item, first, policy_);
    if (!result.has_value()) {
      key.begins.push_back(std::move(one));
      continue;
    }
    deps_.metrics->Add(Metric::kCoalesced);
    AnswerOrLetWait(key, std::move(one.call), *std::move(result));
  }
}

void SlowLane::AnswerOrLetWait(KeyCalls& key, std::unique_ptr<BeginCall> call, BeginResult result) {
  if (result.verdict == BeginVerdict::kInProgress && !call->HasLeft() &&
      call->wait_ends_at > deps_.clock->BootTime()) {
    key.willing_to_wait.emplace_back(std::move(call), std::move(result));
  } else {
    Answer(std::move(call), std::move(result));
  }
}

// The lane is told that it has the key again before it gets calls of it back.
void SlowLane::ReleaseIdleKeys(bool closed) {
  for (auto it = keys_.begin(); it != keys_.end();) {
    KeyCalls& key = it->second;
    if (key.owners.empty() && key.begins.empty()) {
      deps_.queues->Of(key.hash).LeftSlowLane(it->first);
      ReleaseBegins(key, closed);
      it = keys_.erase(it);
      continue;
    }
    if (!key.begins.empty()) {
      for (auto& [call, result] : key.willing_to_wait) {
        const absl::Duration give_up_at = call->terms.deadline;
        // Its wait ends with a last decision.
        key.try_at = std::min(key.try_at, call->wait_ends_at);
        key.begins.push_back({std::move(call), give_up_at});
      }
      key.willing_to_wait.clear();
    } else if (key.has_begins_here) {
      key.has_begins_here = false;
      deps_.queues->Of(key.hash).BeginsLeftSlowLane(it->first);
      ReleaseBegins(key, closed);
    }
    ++it;
  }
}

void SlowLane::ReleaseBegins(KeyCalls& key, bool closed) {
  for (auto& [call, result] : key.willing_to_wait) {
    const size_t bytes = call->bytes;
    if (!closed && deps_.queues->Of(key.hash).Return(call) == LaneQueue::PushResult::kAccepted) {
      Left(bytes);
    } else {
      Answer(std::move(call), std::move(result));
    }
  }
  key.willing_to_wait.clear();
}

bool SlowLane::Step() {
  const absl::Duration now = deps_.clock->BootTime();
  const bool closed = TakeIncoming(now);
  for (auto& [name, key] : keys_) {
    const bool is_last_chance_over = closed && key.was_tried;
    GiveUp(key.owners, is_last_chance_over, now);
    GiveUp(key.begins, is_last_chance_over, now);
  }
  const std::vector<KeyCalls*> due = DueKeys(now);
  RunOwners(due);
  RunBegins(due);
  refused_.Keep(store_.get());
  const absl::Duration after = deps_.clock->BootTime();
  for (KeyCalls* key : due) {
    key->try_at = key->is_locked ? after + key->pause : after;
    key->pause = key->is_locked ? std::min(2 * key->pause, kLongestPause) : kFirstPause;
  }
  ReleaseIdleKeys(closed);
  return !closed || !keys_.empty() || !refused_.empty();
}

absl::Duration SlowLane::NextDue() const {
  if (!refused_.empty()) return -absl::InfiniteDuration();
  absl::Duration due = absl::InfiniteDuration();
  const auto consider = [&due](const auto& held) {
    for (const auto& one : held) due = std::min(due, one.give_up_at);
  };
  for (const auto& [name, key] : keys_) {
    due = std::min(due, key.try_at);
    consider(key.owners);
    consider(key.begins);
  }
  return due;
}

void SlowLane::Run() {
  while (Step()) {
    const absl::Duration due = NextDue();
    const absl::Duration pause = due - deps_.clock->BootTime();
    MutexLock lock(&mu_);
    if (!incoming_.empty()) continue;
    if (due == absl::InfiniteDuration()) {
      while (incoming_.empty() && !incoming_.closed) work_.Wait(&mu_);
    } else if (pause > absl::ZeroDuration()) {
      work_.WaitFor(&mu_, pause);
    }
  }
}

}  // namespace idempotency
