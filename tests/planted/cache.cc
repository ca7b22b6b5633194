// Faults in what is replayed from memory.
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "server/base/mutex.h"
#include "server/engine/replay_cache.h"
#include "tests/planted/planted.h"

namespace idempotency {

// The hidden first argument of a member function is the object.
std::optional<BeginResult> RealFind(ReplayCache* cache, const BeginItem& item, size_t hash) asm(
    "__real__ZN11idempotency11ReplayCache4FindERKNS_9BeginItemEm");
std::optional<BeginResult> PlantedFind(ReplayCache* cache, const BeginItem& item, size_t hash) asm(
    "__wrap__ZN11idempotency11ReplayCache4FindERKNS_9BeginItemEm");
void RealLearn(ReplayCache* cache, const BeginResult& result, size_t hash, const ReadTerms& terms) asm(
    "__real__ZN11idempotency11ReplayCache5LearnERKNS_11BeginResultEmRKNS_9ReadTermsE");
void PlantedLearn(ReplayCache* cache, const BeginResult& result, size_t hash, const ReadTerms& terms) asm(
    "__wrap__ZN11idempotency11ReplayCache5LearnERKNS_"
    "11BeginResultEmRKNS_9ReadTermsE");

namespace {

// The final records that were learnt: what the cache does not tell. Tests are short: it only grows.
class Learnt {
 public:
  void Add(std::shared_ptr<const Record> record) {
    const MutexLock lock(&mu_);
    records_[record->key] = std::move(record);
  }
  std::shared_ptr<const Record> Find(const RecordKey& key) {
    const MutexLock lock(&mu_);
    const auto found = records_.find(key);
    return found == records_.end() ? nullptr : found->second;
  }

 private:
  Mutex mu_;
  std::map<RecordKey, std::shared_ptr<const Record>> records_ ABSL_GUARDED_BY(mu_);
};

Learnt& AllLearnt() {
  static auto* const learnt = new Learnt;
  return *learnt;
}

RecordKey WithoutMerchant(const RecordKey& key) { return {"", key.idempotency_key}; }

}  // namespace

std::optional<BeginResult> PlantedFind(ReplayCache* cache, const BeginItem& item, size_t hash) {
  std::optional<BeginResult> found = RealFind(cache, item, hash);
  if (found.has_value()) return found;
  BeginItem other = item;
  if (planted::Is("cache-ignores-fingerprint")) {
    const std::shared_ptr<const Record> record = AllLearnt().Find(item.key);
    if (record == nullptr) return found;
    other.operation = record->operation;
    other.fingerprint = record->fingerprint;
    other.fingerprint_scheme = record->fingerprint_scheme;
    return RealFind(cache, other, hash);
  }
  if (planted::Is("cache-ignores-merchant")) {
    other.key = WithoutMerchant(item.key);
    return RealFind(cache, other, absl::HashOf(other.key));
  }
  return found;
}

void PlantedLearn(ReplayCache* cache, const BeginResult& result, size_t hash,
                  const ReadTerms& terms) {
  RealLearn(cache, result, hash, terms);
  if (result.verdict != BeginVerdict::kReplay) return;
  AllLearnt().Add(result.record);
  if (!planted::Is("cache-ignores-merchant")) return;
  auto record = std::make_shared<Record>(*result.record);
  record->key = WithoutMerchant(record->key);
  BeginResult copy = result;
  const size_t other_hash = absl::HashOf(record->key);
  copy.record = std::move(record);
  RealLearn(cache, copy, other_hash, terms);
}

}  // namespace idempotency
