#include "tests/bench/caller.h"

#include <sys/prctl.h>
#include <time.h>

#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/base/check.h"
#include "server/base/mutex.h"

namespace idempotency::bench {
namespace {

// Far above every latency of interest; as a client has one.
constexpr std::chrono::seconds kDeadline{10};

using Stub = v1::IdempotencyService::Stub;

// One call in flight at a time; its address is the completion queue's tag.
class Slot {
 public:
  explicit Slot(Stub* stub) : stub_(stub) {}

  Exchange& exchange() { return exchange_; }
  int64_t counts_from() const { return counts_from_; }
  const grpc::Status& status() const { return status_; }

  // Sends what the exchange says. REQUIRES: no call of this slot is in flight.
  void Start(grpc::CompletionQueue* queue, int64_t counts_from) {
    counts_from_ = counts_from;
    context_.emplace();
    context_->set_deadline(std::chrono::system_clock::now() + kDeadline);
    if (exchange_.is_complete) {
      complete_ = stub_->PrepareAsyncComplete(&*context_, exchange_.complete, queue);
      complete_->StartCall();
      complete_->Finish(&exchange_.completed, &status_, this);
    } else {
      begin_ = stub_->PrepareAsyncBegin(&*context_, exchange_.begin, queue);
      begin_->StartCall();
      begin_->Finish(&exchange_.begun, &status_, this);
    }
  }

 private:
  Stub* const stub_;
  Exchange exchange_;
  std::optional<grpc::ClientContext> context_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::BeginResponse>> begin_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CompleteResponse>> complete_;
  int64_t counts_from_ = 0;
};

std::vector<std::unique_ptr<Stub>> MakeStubs(const Channels& channels) {
  std::vector<std::unique_ptr<Stub>> stubs;
  for (const auto& channel : channels) stubs.push_back(v1::IdempotencyService::NewStub(channel));
  return stubs;
}

// Tells the workload what became of the call, and the tally if the call counts.
void Note(Slot& slot, int64_t now, bool counts, Workload* workload, Tally* tally) {
  if (!slot.status().ok()) {
    workload->Failed(slot.exchange());
    if (!counts) return;
    ++tally->errors[slot.status().error_code()];
    if (tally->first_error.empty()) tally->first_error = slot.status().error_message();
    return;
  }
  const Heard heard = workload->Hear(slot.exchange());
  if (!counts) return;
  ++tally->heard[static_cast<size_t>(heard)];
  if (!workload->IsExpected(heard)) ++tally->unexpected;
  Histogram& latency = slot.exchange().is_complete ? tally->complete_latency : tally->begin_latency;
  latency.Record(now - slot.counts_from());
}

// Sleeps until the instant with the kernel's best resolution.
void SleepUntil(int64_t nanos) {
  const timespec until{nanos / 1'000'000'000, nanos % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

// The slots and the workload of an open loop, shared by the thread that sends and the one that
// hears.
class OpenLoop {
 public:
  OpenLoop(const Channels& channels, const OpenLoopSchedule& schedule, Workload* workload,
           Tally* tally)
      : stubs_(MakeStubs(channels)), schedule_(schedule), workload_(workload), tally_(tally) {}

  void Run() {
    std::thread hearing([this] { Hear(); });
    Send();
    {
      MutexLock lock(&mu_);
      while (outstanding_ > 0) room_.Wait(&mu_);
    }
    queue_.Shutdown();
    hearing.join();
  }

 private:
  void Send() {
    // Wake-ups are otherwise put off by up to 50 us to save power.
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    const double gap = 1e9 / schedule_.calls_per_second;
    for (uint64_t call = 0;; ++call) {
      const int64_t due = schedule_.start + static_cast<int64_t>(gap * static_cast<double>(call));
      if (due >= schedule_.end) return;
      if (NowNanos() < due) SleepUntil(due);
      Slot* const slot = TakeSlot();
      if (due >= schedule_.measure) late_.Record(NowNanos() - due);
      slot->Start(&queue_, due);
    }
  }

  Slot* TakeSlot() {
    MutexLock lock(&mu_);
    while (outstanding_ >= schedule_.max_outstanding) room_.Wait(&mu_);
    ++outstanding_;
    if (free_.empty()) {
      slots_.push_back(std::make_unique<Slot>(stubs_[slots_.size() % stubs_.size()].get()));
      free_.push_back(slots_.back().get());
    }
    Slot* const slot = free_.back();
    free_.pop_back();
    IDEM_CHECK(workload_->Next(&slot->exchange())) << "an open loop has no end of its own";
    return slot;
  }

  void Hear() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      Slot* const slot = static_cast<Slot*>(tag);
      const int64_t now = NowNanos();
      MutexLock lock(&mu_);
      Note(*slot, now, slot->counts_from() >= schedule_.measure, workload_, tally_);
      free_.push_back(slot);
      --outstanding_;
      room_.NotifyAll();
    }
    tally_->late.Add(late_);
  }

  const std::vector<std::unique_ptr<Stub>> stubs_;
  const OpenLoopSchedule schedule_;
  Workload* const workload_ ABSL_PT_GUARDED_BY(mu_);
  Tally* const tally_;
  grpc::CompletionQueue queue_;
  Histogram late_;  // the sending thread's, until every call is answered

  Mutex mu_;
  CondVar room_;
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mu_);
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mu_);
  size_t outstanding_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

int64_t NowNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Tally::Add(const Tally& other) {
  begin_latency.Add(other.begin_latency);
  complete_latency.Add(other.complete_latency);
  late.Add(other.late);
  for (size_t i = 0; i < kHeardKinds; ++i) heard[i] += other.heard[i];
  unexpected += other.unexpected;
  for (const auto& [code, count] : other.errors) errors[code] += count;
  if (first_error.empty()) first_error = other.first_error;
}

void RunClosedLoop(const Channels& channels, size_t in_flight, Workload* workload,
                   const Stage& stage, Tally* tally) {
  const std::vector<std::unique_ptr<Stub>> stubs = MakeStubs(channels);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Slot>> slots;
  std::vector<Slot*> idle;
  for (size_t i = 0; i < in_flight; ++i) {
    slots.push_back(std::make_unique<Slot>(stubs[i % stubs.size()].get()));
    idle.push_back(slots.back().get());
  }
  const auto ask = [&](int64_t now) {
    while (!idle.empty() && workload->Next(&idle.back()->exchange())) {
      idle.back()->Start(&queue, now);
      idle.pop_back();
    }
  };
  ask(NowNanos());
  while (idle.size() < slots.size()) {
    void* tag = nullptr;
    bool ok = false;
    IDEM_CHECK(queue.Next(&tag, &ok)) << "the queue is not shut down";
    Slot* const slot = static_cast<Slot*>(tag);
    const int64_t now = NowNanos();
    const int at = stage.now.load(std::memory_order_acquire);
    Note(*slot, now, at == Stage::kMeasure, workload, tally);
    idle.push_back(slot);
    if (at != Stage::kStop) ask(now);
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

void RunOpenLoop(const Channels& channels, const OpenLoopSchedule& schedule, Workload* workload,
                 Tally* tally) {
  OpenLoop(channels, schedule, workload, tally).Run();
}

}  // namespace idempotency::bench
