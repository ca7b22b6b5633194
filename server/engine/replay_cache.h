// Final records that this replica has read: their replays need no database.
//
// A final record does not change until it expires, so what is kept here is right as long as three
// things hold, and is dropped when one of them may not:
//  - The record has not expired. What is left of its retention, by the database's reading that came
//    with the record, is counted from when the read was *sent*, on Clock::BootTime (which runs on
//    while the process or the machine is suspended), less the skew margin. The record expires only
//    when the margin is over, too: two margins lie between the last answer from here and the first
//    new attempt elsewhere.
//  - The database still continues the history of commits in which it was read. Each part of the
//    cache knows the identity of its records, and is emptied when another one becomes current.
//  - The record is still the key's. A key that this replica starts, or sees with another record, is
//    dropped at once; what somebody deleted elsewhere is answered for at most max_age.
//
// Thread-safe. Sharded by key; a shard holds at most its share of max_bytes, the least recently
// replayed leaves first.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"
#include "server/record/decide.h"
#include "server/record/limit.h"
#include "server/record/reading.h"
#include "server/record/record.h"
#include "server/record/replay_memo.h"
#include "server/store/store.h"

namespace idempotency {

struct ReplayCacheOptions {
  size_t max_bytes = 64 * kMiB;  // zero: nothing is kept
  absl::Duration max_age = absl::Seconds(60);
};

// When a batch's records were read, and in which history of commits.
struct ReadTerms {
  // Before the batch was handed to the store, on Clock::BootTime's scale.
  absl::Duration sent;
  // Absent when that cannot be said: then nothing of the batch may be kept.
  std::optional<DatabaseIdentity> identity;
};

class ReplayCache {
 public:
  static constexpr size_t kShards = 16;

  // `clock` and `metrics` must outlive this.
  ReplayCache(const ReplayCacheOptions& options, const Policy& policy, Clock* clock,
              Metrics* metrics);
  ReplayCache(const ReplayCache&) = delete;
  ReplayCache& operator=(const ReplayCache&) = delete;
  ~ReplayCache();

  // For all functions: `hash` is absl::HashOf the key.

  // The replay of the key's record, if it is here and the request is the record's own: any attempt
  // is told it. Nothing is said of another request: only the database may refuse.
  std::optional<BeginResult> Find(const BeginItem& item, size_t hash);

  // What the store told of the key, in this order of a batch's life: its terms, then its results.
  void Learn(const BeginResult& result, size_t hash, const ReadTerms& terms);
  void Learn(const RecordKey& key, const OwnerResult& result, size_t hash);
  void Learn(const RecordKey& key, const LookupResult& result, size_t hash);
  // The key may have been started, nobody knows.
  void Forget(const RecordKey& key, size_t hash);

  // A connection is on this database. Empties the cache when that is another than the current one,
  // but for an earlier timeline of the same cluster, which never becomes current: it is a
  // connection to a primary that was replaced.
  void ObserveDatabase(const DatabaseIdentity& identity);

  // What a record counts against max_bytes: itself, its answer twice (the second time encoded), and
  // its places in the index.
  static size_t BytesOf(const Record& record);

 private:
  // Shared with the answers that are made from it.
  struct Kept {
    std::shared_ptr<const Record> record;
    Reading reading;  // that came with it
    ReplayMemo memo;
  };
  struct Entry {
    std::shared_ptr<const Kept> kept;
    size_t hash = 0;
    size_t bytes = 0;
    absl::Duration answers_until;
  };
  // The most recently replayed first.
  using Order = std::list<Entry>;
  // A key to be sought, without a copy of it.
  struct KeyView {
    const RecordKey* key;
    size_t hash;
  };
  struct HashOfEntry {
    using is_transparent = void;
    size_t operator()(const KeyView& view) const { return view.hash; }
    size_t operator()(Order::iterator entry) const { return entry->hash; }
  };
  struct SameKey {
    using is_transparent = void;
    bool operator()(const KeyView& left, Order::iterator right) const {
      return *left.key == right->kept->record->key;
    }
    bool operator()(Order::iterator left, const KeyView& right) const {
      return (*this)(right, left);
    }
    bool operator()(Order::iterator left, Order::iterator right) const { return left == right; }
  };
  struct Shard {
    Mutex mu;
    Order order ABSL_GUARDED_BY(mu);
    absl::flat_hash_set<Order::iterator, HashOfEntry, SameKey> index ABSL_GUARDED_BY(mu);
    size_t bytes ABSL_GUARDED_BY(mu) = 0;
    // Of every record here.
    std::optional<DatabaseIdentity> identity ABSL_GUARDED_BY(mu);
  };

  Shard& Of(size_t hash) { return shards_[(hash >> 24) % kShards]; }
  void Insert(const BeginResult& result, size_t hash, const ReadTerms& terms);
  // Drops the key's record unless it is this one.
  void ForgetOthers(const Record& record, size_t hash);
  // Moves the entry to `gone`, whose memory is given back outside of the lock.
  void Remove(Shard& shard, Order::iterator entry, Metric why, Order& gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mu);

  const ReplayCacheOptions options_;
  const Policy policy_;
  Clock* const clock_;
  Metrics* const metrics_;

  Mutex identity_mu_;  // before the shards'
  std::optional<DatabaseIdentity> identity_ ABSL_GUARDED_BY(identity_mu_);

  std::vector<Shard> shards_;
};

// Around one batch of a store: takes its terms, and tells the cache which database it met.
class BatchWatch {
 public:
  // Both must outlive this. To be made just before the batch is handed to the store.
  BatchWatch(const Store& store, Clock* clock)
      : store_(store), terms_{clock->BootTime(), store.Identity()} {}

  // After the store returned. A batch that lost its connection may have been answered by two
  // databases: of such a one nothing is kept.
  ReadTerms End(ReplayCache* cache) const;

 private:
  const Store& store_;
  const ReadTerms terms_;
};

}  // namespace idempotency
