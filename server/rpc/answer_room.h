// Room for answers on their way: handed to gRPC, and not taken by their callers yet.
//
// gRPC keeps an answer for as long as its caller does not read, beside its own memory quota, and
// says nothing of it. So every answer holds room here until gRPC is done with it, and one of a call
// that did nothing (a replay, a Lookup) is refused when there is none left. What has to be told,
// because the call did something, always goes out: those answers are small.
//
// What is handed over cannot be taken back, so nobody can be made to give up room for another
// merchant. Therefore a merchant may hold no more than stays free: alone half of the room, and
// however many take all they can get, something is left for one that holds nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

// Thread-safe. Takes one lock of its merchant's shard, for memory operations only.
class AnswerRoom {
  struct Merchant;
  struct Shard;

 public:
  // The room of one answer, given back when it is destroyed.
  class Held {
   public:
    Held(Held&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)),
          bytes_(other.bytes_),
          shard_(other.shard_),
          merchant_(other.merchant_) {}
    ~Held();

   private:
    friend class AnswerRoom;
    Held(AnswerRoom* room, size_t bytes, Shard* shard, Merchant* merchant)
        : room_(room), bytes_(bytes), shard_(shard), merchant_(merchant) {}

    AnswerRoom* room_;
    const size_t bytes_;
    // Null: held for no merchant.
    Shard* const shard_;
    Merchant* const merchant_;
  };

  // `metrics` must outlive this, and this every Held.
  AnswerRoom(size_t max_bytes, Metrics* metrics);

  // For an answer that may be refused. Nothing: there is no room for it.
  std::optional<Held> TryHold(absl::string_view merchant, size_t bytes);
  // For an answer that has to go out: also past the bound.
  Held Hold(size_t bytes);

 private:
  // One that holds room.
  struct Merchant {
    std::string name;
    size_t answers = 0;
    size_t bytes = 0;
  };
  struct Shard {
    Mutex mu;
    // By Merchant::name. There are no more of them than answers.
    absl::flat_hash_map<absl::string_view, std::unique_ptr<Merchant>> merchants ABSL_GUARDED_BY(mu);
  };

  // Adds `bytes` to what is held if, with them, `reserve` stay free.
  bool Take(size_t bytes, size_t reserve);
  void GiveBack(const Held& held);

  const size_t max_bytes_;
  Metrics* const metrics_;
  std::atomic<size_t> bytes_{0};
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace idempotency
