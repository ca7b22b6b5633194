#include "tests/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "server/base/check.h"

namespace idempotency::bench {

// Values below kPerPower have a bucket each. Above, the leading kBits + 1 bits choose the bucket:
// the position of the highest one chooses the row, the kBits after it the place in the row.
size_t Histogram::BucketOf(uint64_t value) {
  if (value < kPerPower) return value;
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kBits;
  return static_cast<size_t>(shift + 1) * kPerPower + ((value >> shift) - kPerPower);
}

uint64_t Histogram::TopOf(size_t bucket) {
  if (bucket < kPerPower) return bucket;
  const auto shift = static_cast<int>(bucket / kPerPower) - 1;
  const uint64_t leading = kPerPower + bucket % kPerPower;
  return (leading << shift) + ((uint64_t{1} << shift) - 1);
}

void Histogram::Record(int64_t nanos) {
  const int64_t value = std::max<int64_t>(nanos, 0);
  ++counts_[BucketOf(static_cast<uint64_t>(value))];
  ++count_;
  max_ = std::max(max_, value);
}

void Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

int64_t Histogram::Percentile(double q) const {
  IDEM_CHECK(q > 0 && q <= 1) << "a percentile is a share";
  if (count_ == 0) return 0;
  const auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(static_cast<int64_t>(TopOf(i)), max_);
  }
  return max_;
}

}  // namespace idempotency::bench
