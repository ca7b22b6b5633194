#include "server/store/postgres/postgres_store.h"

#include <utility>

#include "server/base/check.h"
#include "server/store/postgres/batch_run.h"
#include "server/store/postgres/locked_write.h"
#include "server/store/postgres/maintenance.h"
#include "server/store/postgres/session.h"
#include "server/store/postgres/store_batches.h"

namespace idempotency {
namespace {

ConnectionOptions ConnectionOf(const PostgresStoreOptions& options) {
  ConnectionOptions connection;
  connection.conninfo = options.conninfo;
  connection.connect_timeout = options.connect_timeout;
  connection.statement_timeout = options.statement_timeout;
  connection.commit_timeout = options.commit_timeout;
  connection.lock_timeout = options.lock_timeout;
  return connection;
}

BackoffOptions BackoffOf(const PostgresStoreOptions& options) {
  return {options.reconnect_first, options.reconnect_longest};
}

class PostgresStore : public Store {
 public:
  PostgresStore(const PostgresStoreOptions& options, Metrics* metrics)
      : policy_(options.policy),
        run_options_{options.retry_budget, BackoffOf(options)},
        metrics_(metrics),
        session_(ConnectionOf(options), BackoffOf(options), metrics) {}

  BatchResults<BeginResult> BeginBatch(absl::Span<const BeginItem* const> items) override {
    return RunBatch<BeginResult>(items,
                                 [this](BatchRun& run, Batch<BeginItem, BeginResult>& batch) {
                                   return BeginOnce(policy_, run, batch);
                                 });
  }

  BatchResults<OwnerResult> OwnerBatch(absl::Span<const OwnerItem* const> items) override {
    return RunBatch<OwnerResult>(items,
                                 [this](BatchRun& run, Batch<OwnerItem, OwnerResult>& batch) {
                                   return OwnerOnce(policy_, run, batch);
                                 });
  }

  BatchResults<LookupResult> LookupBatch(absl::Span<const LookupItem* const> items) override {
    return RunBatch<LookupResult>(items, [](BatchRun& run, Batch<LookupItem, LookupResult>& batch) {
      return ReadRows(run, KeysOf(batch.items), run.Open(), [&](const FoundRow& row) {
        batch.results[row.place] = {row.record, row.reading};
        run.MarkAnswered(row.place);
      });
    });
  }

  BatchResults<bool> KeepRefusedBatch(absl::Span<const OwnerItem* const> items) override {
    return RunBatch<bool>(items, [](BatchRun& run, Batch<OwnerItem, bool>& batch) {
      return KeepRefusedOnce(run, batch);
    });
  }

  absl::StatusOr<int64_t> CountBlocks() override { return idempotency::CountBlocks(session_); }

  absl::StatusOr<std::vector<SweptRecord>> SweepStep(BlockRange range,
                                                     absl::Duration grace) override {
    return idempotency::SweepStep(session_, policy_, range, grace);
  }

  absl::StatusOr<int64_t> PurgeStep(BlockRange range) override {
    return idempotency::PurgeStep(session_, policy_, range);
  }

  absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(BlockRange range,
                                                              absl::Duration max_age) override {
    return idempotency::PurgeUnsettledStep(session_, policy_, range, max_age);
  }

  absl::Status Check() override { return CheckDatabase(session_); }

  std::optional<DatabaseIdentity> Identity() const override { return session_.Identity(); }

 private:
  template <typename Result, typename Item, typename Once>
  BatchResults<Result> RunBatch(absl::Span<const Item* const> items, const Once& once) {
    for (size_t i = 1; i < items.size(); ++i) {
      IDEM_CHECK(items[i - 1]->key < items[i]->key) << "a batch is sorted and has no key twice";
    }
    BatchRun run(items.size(), &session_, metrics_);
    Batch<Item, Result> batch{items, std::vector<Result>(items.size())};
    if (!items.empty()) run.RunUntilKnown(run_options_, [&] { return once(run, batch); });
    BatchResults<Result> results;
    results.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      if (run.IsAnswered(i)) {
        results.emplace_back(Result(std::move(batch.results[i])));
      } else {
        IDEM_CHECK(run.HasFault(i)) << "an item was left without an answer";
        results.emplace_back(run.FaultAt(i));
      }
    }
    return results;
  }

  const Policy policy_;
  const BatchRunOptions run_options_;
  Metrics* const metrics_;
  Session session_;
};

}  // namespace

StoreFactory MakePostgresStoreFactory(PostgresStoreOptions options, Metrics* metrics) {
  return [options = std::move(options), metrics] {
    return std::make_unique<PostgresStore>(options, metrics);
  };
}

}  // namespace idempotency
