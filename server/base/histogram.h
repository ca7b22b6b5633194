// A distribution that is counted as it happens: how many values fell up to each of a few bounds.
//
// Thread-safe and lock-free; an observation allocates nothing and costs two relaxed additions. A
// reader may see an observation's bucket before its sum: each is right by itself, and both only
// grow.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace idempotency {

// The upper bounds of buckets, ascending; a value equal to a bound lies below it. Beyond the last
// there is one bucket more. `per_unit` values make one of the unit that is exported.
struct HistogramBounds {
  absl::Span<const int64_t> upper;
  double per_unit;
};

inline constexpr size_t kMaxHistogramBounds = 20;

// Spans of time, observed as whole microseconds, exported as seconds. 250 us to 30 s: from below
// one commit's time to the longest wait.
inline constexpr int64_t kSpanBounds[] = {
    250,     500,     1'000,   2'000,     3'000,     5'000,     10'000,     20'000,    50'000,
    100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 30'000'000};
// Numbers of items: powers of two to the largest batch that can be set.
inline constexpr int64_t kItemBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

inline constexpr HistogramBounds kSeconds = {kSpanBounds, 1e6};
inline constexpr HistogramBounds kItems = {kItemBounds, 1};

class Histogram {
 public:
  // REQUIRES: at most kMaxHistogramBounds, which live as long as the program.
  explicit Histogram(const HistogramBounds& bounds) : bounds_(bounds) {}

  void Observe(int64_t value) {
    counts_[BucketOf(bounds_, value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  // Of a histogram whose values are microseconds. Rounded, so that the sum is not biased; a span
  // below zero counts as zero.
  void Observe(absl::Duration span) { Observe(Microseconds(span)); }

  // Observations of one thread that are to be counted together: without an atomic for each.
  class Tally {
   public:
    // As Observe(absl::Duration) of `histogram`, which must outlive this.
    explicit Tally(const Histogram& histogram) : bounds_(histogram.bounds_) {}
    void Observe(absl::Duration span) {
      const int64_t value = Microseconds(span);
      ++counts_[BucketOf(bounds_, value)];
      sum_ += value;
    }

   private:
    friend class Histogram;
    const HistogramBounds& bounds_;
    std::array<uint32_t, kMaxHistogramBounds + 1> counts_{};
    int64_t sum_ = 0;
  };
  void Observe(const Tally& tally) {
    for (size_t i = 0; i <= bounds_.upper.size(); ++i) {
      if (tally.counts_[i] > 0) counts_[i].fetch_add(tally.counts_[i], std::memory_order_relaxed);
    }
    sum_.fetch_add(tally.sum_, std::memory_order_relaxed);
  }

  const HistogramBounds& bounds() const { return bounds_; }
  // Values above the bound before and up to this one; the last place is what is beyond all bounds.
  uint64_t CountIn(size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  int64_t Sum() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t Count() const {
    uint64_t count = 0;
    for (size_t i = 0; i <= bounds_.upper.size(); ++i) count += CountIn(i);
    return count;
  }

 private:
  static size_t BucketOf(const HistogramBounds& bounds, int64_t value) {
    size_t bucket = 0;
    while (bucket < bounds.upper.size() && value > bounds.upper[bucket]) ++bucket;
    return bucket;
  }
  static int64_t Microseconds(absl::Duration span) {
    const int64_t nanoseconds = absl::ToInt64Nanoseconds(span);
    return nanoseconds <= 0 ? 0 : (nanoseconds + 500) / 1000;
  }

  const HistogramBounds bounds_;
  std::array<std::atomic<uint64_t>, kMaxHistogramBounds + 1> counts_{};
  std::atomic<int64_t> sum_{0};
};

}  // namespace idempotency
