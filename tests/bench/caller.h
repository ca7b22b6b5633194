// The two ways to put load on a server.
//
// Closed loop: so many calls in flight, a new one as soon as one is answered. Finds the highest
// rate; its latencies are those of a server that is never given more than it takes. Open loop:
// calls at a fixed rate, whatever the server does, as callers do who know nothing of each other. A
// call's latency counts from when it was due, so a server that stands still is charged for every
// call that came due meanwhile (no coordinated omission), and so is a generator that cannot keep
// up.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "tests/bench/histogram.h"
#include "tests/bench/workload.h"

namespace idempotency::bench {

// Nanoseconds of the steady clock.
int64_t NowNanos();

// What one thread, or all together, heard of the calls that count.
struct Tally {
  Histogram begin_latency;
  Histogram complete_latency;
  // Open loop: how long after it was due a call was sent.
  Histogram late;
  std::array<uint64_t, kHeardKinds> heard{};
  uint64_t unexpected = 0;
  // By gRPC status code.
  std::map<int, uint64_t> errors;
  std::string first_error;

  void Add(const Tally& other);
  uint64_t calls() const { return begin_latency.count() + complete_latency.count(); }
};

// Which calls count, set by the thread that keeps the time. Thread-safe.
struct Stage {
  enum Name { kWarmUp, kMeasure, kStop };
  std::atomic<int> now{kWarmUp};
};

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// Returns when the stage is kStop, or the workload is finished, and every call is answered. Calls
// that are answered in kMeasure count. Runs in the calling thread; many threads make many callers.
void RunClosedLoop(const Channels& channels, size_t in_flight, Workload* workload,
                   const Stage& stage, Tally* tally);

struct OpenLoopSchedule {
  double calls_per_second = 0;
  // Instants of NowNanos: the first call is due, calls due from here on count, no more calls are
  // due.
  int64_t start = 0;
  int64_t measure = 0;
  int64_t end = 0;
  // With so many calls unanswered the next one waits, and is as late as it then is.
  size_t max_outstanding = 20'000;
};

// Returns when the schedule is over and every call is answered. Sends from the calling thread, and
// hears in another.
void RunOpenLoop(const Channels& channels, const OpenLoopSchedule& schedule, Workload* workload,
                 Tally* tally);

}  // namespace idempotency::bench
