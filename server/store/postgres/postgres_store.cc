#include "server/store/postgres/postgres_store.h"

#include <memory>
#include <optional>
#include <utility>

#include "server/base/check.h"
#include "server/store/postgres/batch_run.h"
#include "server/store/postgres/locked_write.h"
#include "server/store/postgres/maintenance.h"
#include "server/store/postgres/probe.h"
#include "server/store/postgres/session.h"
#include "server/store/postgres/store_batches.h"

namespace idempotency {
namespace {

ConnectionOptions ConnectionOf(const PostgresStoreOptions& options) {
  ConnectionOptions connection;
  connection.conninfo = options.conninfo;
  connection.durability = options.durability;
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
  // `circuit` is null with kLocal.
  PostgresStore(const PostgresStoreOptions& options, std::shared_ptr<Circuit> circuit,
                std::shared_ptr<ClockView> view, Metrics* metrics)
      : policy_(options.policy),
        run_options_{options.retry_budget, BackoffOf(options), options.max_answer_bytes},
        metrics_(metrics),
        circuit_(std::move(circuit)),
        session_(ConnectionOf(options), BackoffOf(options), metrics, circuit_.get()),
        clock_(options.policy, std::move(view), &session_) {
    if (circuit_ != nullptr) {
      probe_.emplace(ConnectionOf(options), BackoffOf(options), circuit_.get(), metrics);
    }
  }

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

  BatchResults<ProbeResult> ProbeBatch(absl::Span<const LookupItem* const> items) override {
    return RunBatch<ProbeResult>(
        items,
        [](BatchRun& run, Batch<LookupItem, ProbeResult>& batch) { return ProbeOnce(run, batch); },
        {absl::ZeroDuration(), run_options_.backoff});
  }

  BatchResults<bool> KeepRefusedBatch(absl::Span<const OwnerItem* const> items) override {
    return RunBatch<bool>(items, [](BatchRun& run, Batch<OwnerItem, bool>& batch) {
      return KeepRefusedOnce(run, batch);
    });
  }

  absl::StatusOr<int64_t> CountBlocks() override { return idempotency::CountBlocks(session_); }

  absl::StatusOr<std::vector<SweptRecord>> SweepStep(BlockRange range,
                                                     absl::Duration grace) override {
    return idempotency::SweepStep(session_, clock_, range, grace);
  }

  absl::StatusOr<Survey> SurveyStep(BlockRange range) override {
    return idempotency::SurveyStep(session_, clock_, range);
  }

  absl::StatusOr<int64_t> PurgeStep(BlockRange range) override {
    return idempotency::PurgeStep(session_, clock_, range);
  }

  absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(BlockRange range,
                                                              absl::Duration max_age) override {
    return idempotency::PurgeUnsettledStep(session_, clock_, range, max_age);
  }

  absl::Status Check() override {
    was_checked_ = true;
    return probe_.has_value() ? probe_->Check() : CheckDatabase(session_);
  }

  absl::StatusOr<ClockState> ReadClock() override {
    was_checked_ = false;
    return idempotency::ReadClock(session_, clock_);
  }
  absl::StatusOr<ClockState> RefreshClock(bool saw_drift) override {
    was_checked_ = false;
    return idempotency::RefreshClock(session_, clock_, saw_drift);
  }

  std::optional<DatabaseIdentity> Identity() const override {
    return was_checked_ && probe_.has_value() ? probe_->Identity() : session_.Identity();
  }

 private:
  template <typename Result, typename Item, typename Once>
  BatchResults<Result> RunBatch(absl::Span<const Item* const> items, const Once& once) {
    return RunBatch<Result>(items, once, run_options_);
  }

  template <typename Result, typename Item, typename Once>
  BatchResults<Result> RunBatch(absl::Span<const Item* const> items, const Once& once,
                                const BatchRunOptions& run_options) {
    for (size_t i = 1; i < items.size(); ++i) {
      IDEM_CHECK(items[i - 1]->key < items[i]->key) << "a batch is sorted and has no key twice";
    }
    was_checked_ = false;
    BatchRun run(items.size(), &session_, &clock_, metrics_);
    Batch<Item, Result> batch{items, std::vector<Result>(items.size())};
    if (!items.empty()) run.RunUntilKnown(run_options, [&] { return once(run, batch); });
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
  const std::shared_ptr<Circuit> circuit_;
  Session session_;
  DatabaseClock clock_;
  std::optional<Probe> probe_;  // with kReplicated
  bool was_checked_ = false;    // the last call was Check
};

}  // namespace

StoreFactory MakePostgresStoreFactory(PostgresStoreOptions options, Metrics* metrics) {
  std::shared_ptr<Circuit> circuit;
  if (options.durability == Durability::kReplicated) circuit = std::make_shared<Circuit>(metrics);
  return [options = std::move(options), circuit = std::move(circuit),
          view = std::make_shared<ClockView>(),
          metrics] { return std::make_unique<PostgresStore>(options, circuit, view, metrics); };
}

}  // namespace idempotency
