#include "server/engine/queue.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"

namespace idempotency {

LaneQueue::LaneQueue(size_t max_items, size_t max_bytes, Metrics* metrics, size_t lane)
    : max_items_(max_items), max_bytes_(max_bytes), metrics_(metrics), lane_(lane) {}

bool LaneQueue::HasRoom(Room room, size_t bytes) const {
  return items_.load(std::memory_order_relaxed) + 1 <= LimitOf(room, max_items_) &&
         bytes_.load(std::memory_order_relaxed) + bytes <= LimitOf(room, max_bytes_);
}

void LaneQueue::Count(size_t items, size_t bytes) {
  items_.fetch_add(items, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  metrics_->Add(LaneMetric::kQueuedItems, lane_, static_cast<int64_t>(items));
  metrics_->Add(LaneMetric::kQueuedBytes, lane_, static_cast<int64_t>(bytes));
}

void LaneQueue::CountRefusal(Room room) {
  const bool is_full = items_.load(std::memory_order_relaxed) + 1 > LimitOf(room, max_items_);
  metrics_->Add(is_full ? Metric::kQueueFullOfItems : Metric::kQueueFullOfBytes);
}

LaneQueue::PushResult LaneQueue::Push(std::unique_ptr<OwnerCall>& call) {
  bool wake = false;
  {
    MutexLock lock(&mu_);
    if (incoming_.closed) return PushResult::kDraining;
    if (!HasRoom(Room::kReserved, call->bytes)) {
      CountRefusal(Room::kReserved);
      return PushResult::kOverloaded;
    }
    Count(1, call->bytes);
    incoming_.owners.push_back(std::move(call));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) work_.NotifyOne();
  return PushResult::kAccepted;
}

bool LaneQueue::MakeRoom(const std::string& merchant, size_t bytes, ShedCalls* shed) {
  while (!HasRoom(Room::kShared, bytes)) {
    const size_t shed_bytes = shared_.ShedFor(merchant, shed);
    if (shed_bytes == 0) {
      // All of it or nothing: what was shed in vain has its place again.
      for (const auto& call : shed->begins) Count(1, call->bytes);
      for (const auto& call : shed->lookups) Count(1, call->bytes);
      shared_.PutBack(shed);
      return false;
    }
    Left(1, shed_bytes);
  }
  return true;
}

template <typename Call>
LaneQueue::PushResult LaneQueue::PushShared(std::unique_ptr<Call>& call, ShedCalls* shed) {
  bool wake = false;
  {
    MutexLock lock(&mu_);
    if (incoming_.closed) return PushResult::kDraining;
    if (!MakeRoom(call->item.key.merchant_id, call->bytes, shed)) {
      CountRefusal(Room::kShared);
      return PushResult::kOverloaded;
    }
    Count(1, call->bytes);
    shared_.Add(std::move(call));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) work_.NotifyOne();
  return PushResult::kAccepted;
}

LaneQueue::PushResult LaneQueue::Push(std::unique_ptr<BeginCall>& call, ShedCalls* shed) {
  return PushShared(call, shed);
}

LaneQueue::PushResult LaneQueue::Push(std::unique_ptr<LookupCall>& call, ShedCalls* shed) {
  return PushShared(call, shed);
}

LaneQueue::PushResult LaneQueue::Return(std::unique_ptr<BeginCall>& call) {
  bool wake = false;
  {
    MutexLock lock(&mu_);
    if (incoming_.closed) return PushResult::kDraining;
    Count(1, call->bytes);
    shared_.Add(std::move(call));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) work_.NotifyOne();
  return PushResult::kAccepted;
}

void LaneQueue::LeftSlowLane(RecordKey key) { Tell(&Incoming::left_slow_lane, std::move(key)); }

void LaneQueue::BeginsLeftSlowLane(RecordKey key) {
  Tell(&Incoming::begins_left_slow_lane, std::move(key));
}

void LaneQueue::Tell(std::vector<RecordKey> Incoming::*keys, RecordKey key) {
  bool wake = false;
  {
    MutexLock lock(&mu_);
    // A closed lane has answered its waits and may be gone: nobody is there to be told.
    if (incoming_.closed) return;
    (incoming_.*keys).push_back(std::move(key));
    wake = std::exchange(sleeping_, false);
  }
  if (wake) work_.NotifyOne();
}

void LaneQueue::Close() {
  MutexLock lock(&mu_);
  incoming_.closed = true;
  sleeping_ = false;
  work_.NotifyAll();
}

void LaneQueue::WaitForWork(absl::Duration at_most) {
  MutexLock lock(&mu_);
  if (!incoming_.empty() || !shared_.empty() || incoming_.closed || at_most <= absl::ZeroDuration())
    return;
  sleeping_ = true;
  if (at_most == absl::InfiniteDuration()) {
    while (sleeping_) work_.Wait(&mu_);
  } else {
    work_.WaitFor(&mu_, at_most);
    sleeping_ = false;
  }
}

void LaneQueue::Take(Incoming* incoming, size_t begin_keys, size_t lookup_keys) {
  IDEM_CHECK(incoming->empty()) << "what was taken before is not worked through";
  MutexLock lock(&mu_);
  std::swap(incoming_, *incoming);
  incoming_.closed = incoming->closed;
  shared_.Take(begin_keys, &incoming->begins);
  shared_.Take(lookup_keys, &incoming->lookups);
  incoming->has_more = !shared_.empty();
}

void LaneQueue::Left(size_t items, size_t bytes) {
  if (items == 0) return;
  items_.fetch_sub(items, std::memory_order_relaxed);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  metrics_->Add(LaneMetric::kQueuedItems, lane_, -static_cast<int64_t>(items));
  metrics_->Add(LaneMetric::kQueuedBytes, lane_, -static_cast<int64_t>(bytes));
}

void LaneQueue::CameBack(size_t items, size_t bytes) {
  if (items > 0) Count(items, bytes);
}

LaneQueues::LaneQueues(size_t lanes, size_t max_items, size_t max_bytes, Metrics* metrics) {
  IDEM_CHECK(lanes > 0 && lanes <= kMaxLanes) << "an engine has 1 to 64 lanes";
  metrics->SetLanes(lanes);
  for (size_t i = 0; i < lanes; ++i) {
    queues_.push_back(std::make_unique<LaneQueue>(std::max<size_t>(1, max_items / lanes),
                                                  max_bytes / lanes, metrics, i));
  }
}

void LaneQueues::CloseAll() {
  for (const auto& queue : queues_) queue->Close();
}

}  // namespace idempotency
