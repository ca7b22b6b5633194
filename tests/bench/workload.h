// What the load generator asks for, and what it expects to hear.
//
// Keys are what callers send: random UUIDs of 36 bytes, spread over 1,000 merchants. Everything
// else of a request is derived from its key, so that a repeat carries the same fingerprint, and the
// owner's attempt id can be told again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {

// Names a key and everything that belongs to it.
struct KeySeed {
  uint64_t high = 0;
  uint64_t low = 0;
};

// splitmix64: a few nanoseconds, and good enough for keys that nobody guesses at.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Below `bound`. REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // In [0, 1).
  double Share() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

enum class WorkloadKind {
  kBegin,      // a new key each
  kPair,       // a Begin, and once `lag` others were begun its Complete
  kReplay,     // keys of `recorded`, which have a recorded outcome
  kDuplicate,  // a new key, but for a share that repeats one of the last keys
};
std::optional<WorkloadKind> ParseWorkload(const std::string& name);

struct WorkloadOptions {
  WorkloadKind kind = WorkloadKind::kBegin;
  double duplicate_share = 0;
  // Attempts at work at a time. Real ones take a second or so; an outcome recorded at once would
  // meet its row still in every cache.
  size_t lag = 0;
  // The outcome's body, and whether it has a response id.
  size_t body_bytes = 0;
  bool response_id = false;
  // Pairs to make; nothing: without end.
  std::optional<uint64_t> pairs;
};

// The messages of one call. Used again for call after call: strings keep their memory.
struct Exchange {
  bool is_complete = false;
  KeySeed key;
  v1::BeginRequest begin;
  v1::BeginResponse begun;
  v1::CompleteRequest complete;
  v1::CompleteResponse completed;
};

enum class Heard { kStarted, kRecorded, kReplay, kInProgress, kOther };
inline constexpr size_t kHeardKinds = 5;
const char* HeardName(Heard heard);

// Not thread-safe: one for each thread that asks.
class Workload {
 public:
  // `recorded` must outlive this; for kReplay it must not be empty.
  Workload(const WorkloadOptions& options, uint64_t seed, const std::vector<KeySeed>* recorded);

  // Fills the next request. False: there is nothing to ask now (until something is heard), or ever
  // (Finished()).
  bool Next(Exchange* exchange);
  // What the answer says.
  Heard Hear(const Exchange& exchange);
  bool IsExpected(Heard heard) const;
  // The Begin of the exchange failed: its key will not be completed.
  void Failed(const Exchange& exchange);
  bool Finished() const;

  // Keys whose outcome was recorded; kept only with `pairs`.
  const std::vector<KeySeed>& completed() const { return completed_; }

 private:
  void FillBegin(const KeySeed& key, bool own_attempt, v1::BeginRequest* request);
  void FillComplete(const KeySeed& key, v1::CompleteRequest* request);
  KeySeed NewKey();

  const WorkloadOptions options_;
  const std::vector<KeySeed>* const recorded_;
  Random random_;
  std::string body_;
  std::vector<KeySeed> recent_;  // ring of keys that a duplicate may repeat
  size_t next_recent_ = 0;
  std::deque<KeySeed> at_work_;  // begun, oldest first
  uint64_t begun_ = 0;
  uint64_t unheard_ = 0;  // Begins asked and not answered
  std::vector<KeySeed> completed_;
};

}  // namespace idempotency::bench
