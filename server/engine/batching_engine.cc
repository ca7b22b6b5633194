#include "server/engine/batching_engine.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/hash/hash.h"
#include "server/base/check.h"
#include "server/record/fault.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

// Of the queue's bytes, beside them: what may wait for locked rows.
constexpr size_t kSlowLaneShare = 8;

}  // namespace

BatchingEngine::BatchingEngine(const EngineOptions& options, const StoreFactory& stores,
                               Clock* clock, Metrics* metrics, EngineEvents* events)
    : clock_(clock),
      metrics_(metrics),
      admission_({.calls = options.calls_in_flight_max,
                  .waits = options.waits_max,
                  .waits_of_merchant = options.waits_per_merchant_max},
                 metrics),
      answers_(&admission_, clock, metrics, events),
      cache_({options.cache_max_bytes, options.cache_max_age}, options.policy, clock, metrics),
      queues_(static_cast<size_t>(options.lanes), options.queue_max_items, options.queue_max_bytes,
              metrics),
      slow_lane_(options.policy, options.batch_max_items, options.queue_max_bytes / kSlowLaneShare,
                 stores(), {&queues_, &answers_, &cache_, clock, metrics}),
      sweeper_(options, stores(), clock, metrics, events) {
  IDEM_CHECK(options.batch_max_items > 0) << "a batch of no items answers nobody";
  const BatchLimits limits{options.batch_max_items, options.batch_max_bytes};
  for (int i = 0; i < options.lanes; ++i) {
    const auto number = static_cast<size_t>(i);
    const Lane::Deps deps{
        &queues_.At(number), &slow_lane_, &admission_, &answers_, &cache_, clock, metrics, number};
    lanes_.push_back(
        std::make_unique<Lane>(options.policy, limits, options.waits_per_key_max, stores(), deps));
  }
}

BatchingEngine::~BatchingEngine() { Drain(); }

void BatchingEngine::Start() {
  IDEM_CHECK(lane_threads_.empty()) << "started twice";
  for (const auto& lane : lanes_) {
    lane_threads_.emplace_back([&lane = *lane] { lane.Run(); });
  }
  slow_lane_thread_ = std::thread([this] { slow_lane_.Run(); });
  sweeper_thread_ = std::thread([this] { sweeper_.Run(); });
}

void BatchingEngine::Begin(BeginItem item, CallTerms terms, BeginDone done) {
  // Before every bound: a replay from memory takes no room. A replica that drains refuses it as it
  // refuses all calls, so that its callers go elsewhere.
  if (!draining_.load(std::memory_order_relaxed)) {
    std::optional<BeginResult> replay = cache_.Find(item, absl::HashOf(item.key));
    if (replay.has_value()) {
      metrics_->Add(Metric::kBeginReplay);
      return std::move(done)(*std::move(replay));
    }
  }
  auto call = std::make_unique<BeginCall>(std::move(item), std::move(terms), std::move(done));
  if (call->terms.wait > absl::ZeroDuration()) {
    call->wait_ends_at = std::min(clock_->BootTime() + std::min(call->terms.wait, kMaxWait),
                                  call->terms.deadline - kWaitEndsBeforeDeadline);
  }
  Enter(std::move(call), Room::kShared);
}

void BatchingEngine::Owner(OwnerItem item, CallTerms terms, OwnerDone done) {
  Enter(std::make_unique<OwnerCall>(std::move(item), std::move(terms), std::move(done)),
        Room::kReserved);
}

void BatchingEngine::Lookup(LookupItem item, CallTerms terms, LookupDone done) {
  Enter(std::make_unique<LookupCall>(std::move(item), std::move(terms), std::move(done)),
        Room::kShared);
}

template <typename Call>
void BatchingEngine::Enter(std::unique_ptr<Call> call, Room room) {
  if (draining_.load(std::memory_order_relaxed)) {
    return answers_.Refuse(std::move(call), Fault::kDraining);
  }
  if (!admission_.EnterCall(room)) {
    return answers_.Refuse(std::move(call), Fault::kOverloaded);
  }
  LaneQueue& queue = queues_.Of(call->hash);
  LaneQueue::PushResult result = LaneQueue::PushResult::kAccepted;
  if constexpr (std::is_same_v<Call, OwnerCall>) {
    result = queue.Push(call);
  } else {
    ShedCalls shed;
    result = queue.Push(call, &shed);
    Overload(std::move(shed));
  }
  if (result == LaneQueue::PushResult::kAccepted) return;
  admission_.LeaveCall();
  answers_.Refuse(std::move(call), result == LaneQueue::PushResult::kDraining ? Fault::kDraining
                                                                              : Fault::kOverloaded);
}

void BatchingEngine::Overload(ShedCalls shed) {
  const auto answer = [this](auto& calls) {
    for (auto& call : calls) {
      metrics_->Add(Metric::kQueueShed);
      answers_.Give(std::move(call), MakeFault(Fault::kOverloaded, "others had to have room"));
    }
  };
  answer(shed.begins);
  answer(shed.lookups);
}

void BatchingEngine::Step() {
  IDEM_CHECK(lane_threads_.empty()) << "the engine's own threads step";
  for (const auto& lane : lanes_) lane->Step();
  slow_lane_.Step();
}

void BatchingEngine::StepLane(size_t lane) {
  IDEM_CHECK(lane_threads_.empty()) << "the engine's own threads step";
  lanes_[lane]->Step();
}

void BatchingEngine::StepSlowLane() {
  IDEM_CHECK(lane_threads_.empty()) << "the engine's own threads step";
  slow_lane_.Step();
}

void BatchingEngine::StepSweeper() {
  IDEM_CHECK(lane_threads_.empty()) << "the engine's own threads step";
  sweeper_.Step();
}

void BatchingEngine::Drain() {
  std::call_once(drained_, [this] { DrainOnce(); });
}

void BatchingEngine::DrainOnce() {
  draining_.store(true, std::memory_order_relaxed);
  sweeper_.Stop();
  queues_.CloseAll();
  // The lanes first: what they meet locked goes on to the slow lane.
  if (lane_threads_.empty()) {
    for (const auto& lane : lanes_) {
      while (lane->Step()) {
      }
    }
    slow_lane_.Close();
    while (slow_lane_.Step()) {
    }
    return;
  }
  for (std::thread& thread : lane_threads_) thread.join();
  slow_lane_.Close();
  slow_lane_thread_.join();
  sweeper_thread_.join();
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options, const StoreFactory& stores,
                                   Clock* clock, Metrics* metrics, EngineEvents* events) {
  auto engine = std::make_unique<BatchingEngine>(options, stores, clock, metrics, events);
  engine->Start();
  return engine;
}

}  // namespace idempotency
