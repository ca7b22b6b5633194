// Latencies in buckets that grow with the value, as HdrHistogram has them: Debian packages that
// only for Java and Go.
//
// Each power of two is cut into 128 buckets, so a percentile is at most 1/128 (0.8 %) too high and
// never too low. Not thread-safe: one for each thread, added up at the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace idempotency::bench {

class Histogram {
 public:
  // Negative values count as zero.
  void Record(int64_t nanos);
  void Add(const Histogram& other);

  uint64_t count() const { return count_; }
  int64_t max() const { return max_; }
  // The value that a share `q` of all values does not exceed; zero without values. REQUIRES: 0 < q
  // <= 1.
  int64_t Percentile(double q) const;

 private:
  static constexpr int kBits = 7;
  static constexpr size_t kPerPower = size_t{1} << kBits;
  static constexpr size_t kBuckets = (64 - kBits + 1) * kPerPower;

  static size_t BucketOf(uint64_t value);
  // The highest value of the bucket.
  static uint64_t TopOf(size_t bucket);

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t count_ = 0;
  int64_t max_ = 0;
};

}  // namespace idempotency::bench
