#include "server/engine/replay_cache.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/engine/held_bytes.h"

namespace idempotency {
namespace {

// A pointer in the index, its control byte and the free places beside it: flat_hash_set doubles,
// and is on the average filled by two thirds.
constexpr size_t kIndexBytes = 2 * (sizeof(void*) + 1);
// Heads of the allocations of one record: guessed, glibc's are 8 to 16 bytes each.
constexpr size_t kAllocationBytes = 128;
// What an encoded answer holds beside the outcome's own bytes: ids, times, tags, its buffer.
constexpr size_t kEncodedBytes = 512;

bool IsRequestOf(const Record& record, const BeginItem& item) {
  return record.operation == item.operation && record.fingerprint == item.fingerprint;
}

}  // namespace

ReplayCache::ReplayCache(const ReplayCacheOptions& options, const Policy& policy, Clock* clock,
                         Metrics* metrics)
    : options_(options), policy_(policy), clock_(clock), metrics_(metrics), shards_(kShards) {}

ReplayCache::~ReplayCache() {
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    metrics_->Add(Metric::kCacheEntries, -static_cast<int64_t>(shard.order.size()));
    metrics_->Add(Metric::kCacheBytes, -static_cast<int64_t>(shard.bytes));
  }
}

size_t ReplayCache::BytesOf(const Record& record) {
  const size_t answer = record.answer == nullptr ? 0 : HeldBytes(*record.answer);
  size_t bytes = sizeof(Entry) + 2 * sizeof(void*) + kIndexBytes + sizeof(Kept) + sizeof(Record) +
                 kAllocationBytes + kEncodedBytes + HeldBytes(record.key) +
                 record.operation.size() + 2 * answer + HeldBytes(record.labels) +
                 record.earlier_attempts.size() * sizeof(AttemptHash);
  if (record.previous_attempt.has_value() && record.previous_attempt->failure.has_value()) {
    bytes += HeldBytes(*record.previous_attempt->failure);
  }
  if (record.refused_outcome.has_value()) bytes += record.refused_outcome->response_id.size();
  return bytes;
}

std::optional<BeginResult> ReplayCache::Find(const BeginItem& item, size_t hash) {
  if (options_.max_bytes == 0) return std::nullopt;
  const absl::Duration now = clock_->BootTime();
  std::shared_ptr<const Kept> kept;
  Order gone;
  {
    Shard& shard = Of(hash);
    MutexLock lock(&shard.mu);
    const auto found = shard.index.find(KeyView{&item.key, hash});
    if (found != shard.index.end()) {
      const Order::iterator entry = *found;
      if (entry->answers_until <= now) {
        Remove(shard, entry, Metric::kCacheExpired, gone);
      } else if (IsRequestOf(*entry->kept->record, item)) {
        shard.order.splice(shard.order.begin(), shard.order, entry);
        kept = entry->kept;
      }
    }
  }
  if (kept == nullptr) {
    metrics_->Add(Metric::kCacheMisses);
    return std::nullopt;
  }
  metrics_->Add(Metric::kCacheHits);
  BeginResult result;
  result.verdict = BeginVerdict::kReplay;
  result.reading = kept->reading;
  result.memo = &kept->memo;
  const Record* const record = kept->record.get();
  result.record = std::shared_ptr<const Record>(std::move(kept), record);
  return result;
}

void ReplayCache::Learn(const BeginResult& result, size_t hash, const ReadTerms& terms) {
  switch (result.verdict) {
    case BeginVerdict::kReplay:
      return Insert(result, hash, terms);
    case BeginVerdict::kStarted:
      return Forget(result.record->key, hash);
    case BeginVerdict::kInProgress:
    case BeginVerdict::kKeyReused:
    case BeginVerdict::kLeaseLost:
    case BeginVerdict::kNeedsResolution:
      return ForgetOthers(*result.record, hash);
  }
}

void ReplayCache::Learn(const RecordKey& key, const OwnerResult& result, size_t hash) {
  if (result.record == nullptr) return Forget(key, hash);
  ForgetOthers(*result.record, hash);
}

void ReplayCache::Learn(const RecordKey& key, const LookupResult& result, size_t hash) {
  if (result.record == nullptr) return Forget(key, hash);
  ForgetOthers(*result.record, hash);
}

void ReplayCache::Insert(const BeginResult& result, size_t hash, const ReadTerms& terms) {
  IDEM_CHECK(IsFinal(result.record->state)) << "only a final record stays as it is";
  if (options_.max_bytes == 0 || !terms.identity.has_value()) return;
  const absl::Duration retention =
      ExpiresAt(*result.record, policy_) - result.reading.now - policy_.skew_margin;
  Entry entry;
  entry.answers_until = terms.sent + std::min(retention, options_.max_age);
  entry.hash = hash;
  entry.bytes = BytesOf(*result.record);
  const size_t share = options_.max_bytes / kShards;
  if (entry.answers_until <= clock_->BootTime() || entry.bytes > share) return;
  auto kept = std::make_shared<Kept>();
  kept->record = result.record;
  kept->reading = result.reading;
  entry.kept = std::move(kept);

  Order gone;
  Shard& shard = Of(hash);
  MutexLock lock(&shard.mu);
  if (shard.identity != terms.identity) return;
  const auto found = shard.index.find(KeyView{&result.record->key, hash});
  if (found != shard.index.end()) {
    // Read before the other was: by another lane, whose answer came late.
    if ((*found)->kept->record->created_at > result.record->created_at) return;
    Remove(shard, *found, Metric::kCacheReplaced, gone);
  }
  while (shard.bytes + entry.bytes > share) {
    Remove(shard, std::prev(shard.order.end()), Metric::kCacheEvictions, gone);
  }
  shard.bytes += entry.bytes;
  metrics_->Add(Metric::kCacheInsertions);
  metrics_->Add(Metric::kCacheEntries);
  metrics_->Add(Metric::kCacheBytes, static_cast<int64_t>(entry.bytes));
  shard.order.push_front(std::move(entry));
  shard.index.insert(shard.order.begin());
}

void ReplayCache::Remove(Shard& shard, Order::iterator entry, Metric why, Order& gone) {
  shard.index.erase(entry);
  shard.bytes -= entry->bytes;
  metrics_->Add(why);
  metrics_->Add(Metric::kCacheEntries, -1);
  metrics_->Add(Metric::kCacheBytes, -static_cast<int64_t>(entry->bytes));
  gone.splice(gone.begin(), shard.order, entry);
}

void ReplayCache::ForgetOthers(const Record& record, size_t hash) {
  if (options_.max_bytes == 0) return;
  Order gone;
  Shard& shard = Of(hash);
  MutexLock lock(&shard.mu);
  const auto found = shard.index.find(KeyView{&record.key, hash});
  if (found == shard.index.end()) return;
  // The same record and not final: the database has lost a commit.
  if ((*found)->kept->record->created_at == record.created_at && IsFinal(record.state)) return;
  Remove(shard, *found, Metric::kCacheReplaced, gone);
}

void ReplayCache::Forget(const RecordKey& key, size_t hash) {
  if (options_.max_bytes == 0) return;
  Order gone;
  Shard& shard = Of(hash);
  MutexLock lock(&shard.mu);
  const auto found = shard.index.find(KeyView{&key, hash});
  if (found != shard.index.end()) Remove(shard, *found, Metric::kCacheReplaced, gone);
}

void ReplayCache::ObserveDatabase(const DatabaseIdentity& identity) {
  Order gone;
  MutexLock lock(&identity_mu_);
  if (identity_ == identity) return;
  if (identity_.has_value() && identity_->system_identifier == identity.system_identifier &&
      identity_->timeline > identity.timeline) {
    return;
  }
  if (identity_.has_value()) metrics_->Add(Metric::kCacheResets);
  identity_ = identity;
  for (Shard& shard : shards_) {
    MutexLock shard_lock(&shard.mu);
    while (!shard.order.empty()) {
      Remove(shard, shard.order.begin(), Metric::kCacheReplaced, gone);
    }
    shard.identity = identity;
  }
}

ReadTerms BatchWatch::End(ReplayCache* cache) const {
  const std::optional<DatabaseIdentity> identity = store_.Identity();
  if (identity.has_value()) cache->ObserveDatabase(*identity);
  return {terms_.sent, identity == terms_.identity ? identity : std::nullopt};
}

}  // namespace idempotency
