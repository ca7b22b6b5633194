// How much of a replica one merchant's Begins and Lookups may use: a rate, and a number of calls in
// flight. What one merchant uses up, no other one lacks.
//
// The rate is a token bucket: `burst` tokens, refilled at `max_rate` a second; each call takes one.
// A full bucket without calls in flight says nothing, so it is forgotten when its memory is wanted
// for another merchant; any other one is never forgotten, or a merchant could empty its own bucket,
// have it pushed out by calls under made-up names, and begin with a full one again. When there is
// no memory left for a merchant it shares a bucket with the others that found none: made-up names
// in their tens of thousands cost known merchants nothing, and new ones little.
//
// Complete, Fail and Renew are not asked about here: by then the work is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

struct MerchantLimitOptions {
  // Begins and Lookups a second; 0: no bound. Off unless set: nobody but the operator knows what a
  // merchant may ask for.
  size_t max_rate = 0;
  // So many may come at once after a pause; 0: as many as `max_rate` lets in within a second.
  size_t burst = 0;
  // Begins and Lookups that are not answered yet, waiting ones included; 0: no bound. A quarter of
  // the calls in flight that EngineOptions lets in at first, and three quarters of the waits.
  size_t max_calls_in_flight = 3072;
};

// How many merchants are told apart at most. Guessed: ten thousand active merchants are many, and
// so many buckets are under 16 MiB.
struct MerchantCapacity {
  size_t shards = 16;
  size_t buckets_of_a_shard = 4096;
};

// Thread-safe. A call takes one lock of its merchant's shard, for memory operations only.
class MerchantLimits {
  struct Bucket;

 public:
  // Of a full shard so many buckets are looked at for one that may be forgotten.
  static constexpr size_t kProbes = 8;

  enum class Bound { kRate, kCallsInFlight };
  struct Refusal {
    Bound bound;
    // With kRate: when a token will be there. With kCallsInFlight zero: nobody knows.
    absl::Duration until_token;
  };

  // A call's place among its merchant's calls in flight, given back when it is destroyed.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : bucket_(std::exchange(other.bucket_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(bucket_, other.bucket_);
      return *this;
    }
    ~Place();

   private:
    friend class MerchantLimits;
    explicit Place(Bucket* bucket) : bucket_(bucket) {}

    Bucket* bucket_ = nullptr;
  };

  // `metrics` must outlive this, and this every Place.
  MerchantLimits(const MerchantLimitOptions& options, Metrics* metrics,
                 MerchantCapacity capacity = {});

  // For one Begin or Lookup of the merchant, as it comes in. A refused call takes no token. `now`
  // is on Clock::BootTime's scale.
  std::variant<Place, Refusal> Enter(absl::string_view merchant, absl::Duration now);

 private:
  struct Bucket {
    std::string merchant;
    // When the bucket will be full if no call comes: by how much it lies ahead is what is missing.
    absl::Duration full_at = -absl::InfiniteDuration();
    // Raised under the shard's lock, lowered without it: whoever lowers it looks at the bucket no
    // more, so that it may be forgotten as soon as this is zero.
    std::atomic<size_t> calls{0};
  };
  struct Shard {
    Mutex mu;
    std::vector<std::unique_ptr<Bucket>> buckets ABSL_GUARDED_BY(mu);
    // By Bucket::merchant, of the same buckets.
    absl::flat_hash_map<absl::string_view, Bucket*> by_merchant ABSL_GUARDED_BY(mu);
    // Where in `buckets` the search for one that may be forgotten goes on.
    size_t hand ABSL_GUARDED_BY(mu) = 0;
    // Of all merchants for which there is no bucket.
    Bucket shared ABSL_GUARDED_BY(mu);
  };

  Bucket& Find(Shard& shard, absl::string_view merchant, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mu);
  static Bucket* FindForgettable(Shard& shard, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mu);

  const bool has_rate_;
  const absl::Duration interval_;   // in which one token comes
  const absl::Duration full_span_;  // in which an empty bucket becomes full
  const size_t max_calls_;          // 0: no bound
  const size_t buckets_of_a_shard_;
  Metrics* const metrics_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace idempotency
