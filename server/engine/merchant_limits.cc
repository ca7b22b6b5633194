#include "server/engine/merchant_limits.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "server/base/check.h"

namespace idempotency {

MerchantLimits::Place::~Place() {
  if (bucket_ != nullptr) bucket_->calls.fetch_sub(1, std::memory_order_release);
}

MerchantLimits::MerchantLimits(const MerchantLimitOptions& options, Metrics* metrics,
                               MerchantCapacity capacity)
    : has_rate_(options.max_rate > 0),
      interval_(absl::Seconds(1) / static_cast<int64_t>(std::max<size_t>(1, options.max_rate))),
      full_span_(interval_ *
                 static_cast<int64_t>(options.burst > 0 ? options.burst : options.max_rate)),
      max_calls_(options.max_calls_in_flight),
      buckets_of_a_shard_(capacity.buckets_of_a_shard),
      metrics_(metrics) {
  IDEM_CHECK(capacity.shards > 0) << "there is no place for any merchant";
  for (size_t i = 0; i < capacity.shards; ++i) shards_.push_back(std::make_unique<Shard>());
}

std::variant<MerchantLimits::Place, MerchantLimits::Refusal> MerchantLimits::Enter(
    absl::string_view merchant, absl::Duration now) {
  if (!has_rate_ && max_calls_ == 0) return Place();
  // Not the low bits: the map within the shard goes by those.
  Shard& shard = *shards_[(absl::HashOf(merchant) >> 32) % shards_.size()];
  MutexLock lock(&shard.mu);
  Bucket& bucket = Find(shard, merchant, now);
  // First, because a call that is refused takes no token.
  if (max_calls_ > 0 && bucket.calls.load(std::memory_order_relaxed) >= max_calls_) {
    metrics_->Add(Metric::kMerchantCallsRefused);
    return Refusal{Bound::kCallsInFlight, absl::ZeroDuration()};
  }
  if (has_rate_) {
    const absl::Duration full_at = std::max(bucket.full_at, now) + interval_;
    if (full_at - now > full_span_) {
      metrics_->Add(Metric::kMerchantRateLimited);
      return Refusal{Bound::kRate, full_at - now - full_span_};
    }
    bucket.full_at = full_at;
  }
  bucket.calls.fetch_add(1, std::memory_order_relaxed);
  return Place(&bucket);
}

MerchantLimits::Bucket& MerchantLimits::Find(Shard& shard, absl::string_view merchant,
                                             absl::Duration now) {
  const auto found = shard.by_merchant.find(merchant);
  if (found != shard.by_merchant.end()) return *found->second;
  Bucket* bucket = nullptr;
  if (shard.buckets.size() < buckets_of_a_shard_) {
    shard.buckets.push_back(std::make_unique<Bucket>());
    bucket = shard.buckets.back().get();
    metrics_->Add(Metric::kMerchantBuckets);
  } else {
    bucket = FindForgettable(shard, now);
    if (bucket == nullptr) {
      metrics_->Add(Metric::kMerchantBucketShared);
      return shard.shared;
    }
    shard.by_merchant.erase(bucket->merchant);
    metrics_->Add(Metric::kMerchantBucketForgotten);
  }
  bucket->merchant = std::string(merchant);
  bucket->full_at = -absl::InfiniteDuration();
  shard.by_merchant.emplace(bucket->merchant, bucket);
  return *bucket;
}

MerchantLimits::Bucket* MerchantLimits::FindForgettable(Shard& shard, absl::Duration now) {
  const size_t probes = std::min(kProbes, shard.buckets.size());
  for (size_t i = 0; i < probes; ++i) {
    Bucket& bucket = *shard.buckets[shard.hand];
    shard.hand = (shard.hand + 1) % shard.buckets.size();
    if (bucket.full_at <= now && bucket.calls.load(std::memory_order_acquire) == 0) return &bucket;
  }
  return nullptr;
}

}  // namespace idempotency
