// A Store in memory: the oracle of the store conformance suite and the engine's fake.
//
// ModelDatabase stands for the database: records, clock, policy. ModelStore stands for one
// connection to it. Judged by tests/util/model_state_machine.h. No product mode: nothing is kept
// beyond the process, and a batch takes one lock over everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/mutex.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

enum class BatchKind { kBegin, kOwner, kLookup, kProbe, kKeepRefused };

// What reached the database: one call of a batch function of Store.
struct SeenBatch {
  BatchKind kind;
  size_t items = 0;
};

// When an injected fault strikes: the batch has no effect, or all of its effect and its answer is
// lost.
enum class FaultMoment { kBeforeCommit, kAfterCommit };

// Thread-safe. Its clock stands still until a test moves it, and shows whole microseconds. The
// clock guard's row is fresh unless a test says otherwise. All records lie in block 0.
class ModelDatabase {
 public:
  explicit ModelDatabase(const Policy& policy = {},
                         absl::Time now = absl::FromUnixSeconds(1'800'000'000));

  absl::Time Now();
  // Time passes, and replicas write the clock's reading into the guard's row. `by` may be negative.
  void AdvanceClock(absl::Duration by);
  void SetClock(absl::Time now);
  // The clock jumps, and nobody has noticed it yet.
  void JumpClock(absl::Duration by);

  // The row as it is stored; absent: there is none.
  std::optional<Record> Find(const RecordKey& key);
  // Puts a row there as it is, past all rules; a row of the same key is replaced.
  void Put(Record record);
  // Takes the row away, past all rules: purged, or the database restored.
  void Erase(const RecordKey& key);
  size_t Size();

  // The next batch of the kind answers every item with `fault`. Several calls queue up.
  void FailNext(BatchKind kind, absl::Status fault,
                FaultMoment moment = FaultMoment::kBeforeCommit);
  // Every item of this key is answered with `fault` and has no effect, whatever the batch, until
  // ClearKeyFault: a poison item (kInternal), a row that another transaction holds (kLockTimeout).
  void FailKey(const RecordKey& key, absl::Status fault);
  void ClearKeyFault(const RecordKey& key);
  // What Store::Check answers from now on.
  void SetCheck(absl::Status status);
  // What Store::ReadClock and RefreshClock fail with from now on; ok: they do not.
  void SetClockFault(absl::Status read, absl::Status refresh);
  // The clock guard's row.
  ClockGuard Guard();
  // What Store::Identity answers once the store's next call is made: another history of commits.
  void SetIdentity(const DatabaseIdentity& identity);

  // From now on batches wait inside the store before they do anything, until OpenGate.
  void CloseGate();
  void OpenGate();
  // Returns true as soon as at least this many batches wait at the closed gate; false after 30 s.
  bool AwaitAtGate(size_t batches);

  // All batches so far, in the order in which they arrived (at the gate, if it was closed).
  std::vector<SeenBatch> Batches();
  size_t CountBatches(BatchKind kind);

 private:
  friend class ModelStore;
  using Rows = std::map<RecordKey, Record>;

  // Runs one batch: notes it, waits at the gate, then decides each item, and applies the faults.
  template <typename Result, typename Item>
  BatchResults<Result> Run(BatchKind kind, absl::Span<const Item* const> items,
                           Result (ModelDatabase::*decide)(const Item&));

  void Watched() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Reading ReadingLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ClockState ClockStateLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ArriveLocked(SeenBatch batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Record* FindLocked(const RecordKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  BeginResult BeginLocked(const BeginItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  OwnerResult OwnerLocked(const OwnerItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  LookupResult LookupLocked(const LookupItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ProbeResult ProbeLocked(const LookupItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool KeepRefusedLocked(const OwnerItem& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Deletes, or marks, what `matches`; answers what it found.
  std::vector<SweptRecord> WalkLocked(BlockRange range, bool erase,
                                      const std::function<bool(const Record&)>& matches)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct InjectedFault {
    BatchKind kind;
    absl::Status status;
    FaultMoment moment;
  };

  const Policy policy_;

  Mutex mu_;
  CondVar gate_moved_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  ClockGuard guard_ ABSL_GUARDED_BY(mu_);
  ClockJump last_jump_ ABSL_GUARDED_BY(mu_) = ClockJump::kOtherHistory;
  Rows rows_ ABSL_GUARDED_BY(mu_);
  std::vector<InjectedFault> faults_ ABSL_GUARDED_BY(mu_);  // oldest first
  std::map<RecordKey, absl::Status> key_faults_ ABSL_GUARDED_BY(mu_);
  absl::Status check_ ABSL_GUARDED_BY(mu_);
  absl::Status read_clock_fault_ ABSL_GUARDED_BY(mu_);
  absl::Status refresh_clock_fault_ ABSL_GUARDED_BY(mu_);
  DatabaseIdentity identity_ ABSL_GUARDED_BY(mu_) = {.system_identifier = 1, .timeline = 1};
  DatabaseIdentity guard_identity_ ABSL_GUARDED_BY(mu_) = identity_;
  std::vector<SeenBatch> batches_ ABSL_GUARDED_BY(mu_);
  bool gate_closed_ ABSL_GUARDED_BY(mu_) = false;
  size_t at_gate_ ABSL_GUARDED_BY(mu_) = 0;
};

// One connection. `database` must outlive it. As every Store: for one thread at a time.
class ModelStore : public Store {
 public:
  explicit ModelStore(ModelDatabase* database) : database_(database) {}

  BatchResults<BeginResult> BeginBatch(absl::Span<const BeginItem* const> items) override;
  BatchResults<OwnerResult> OwnerBatch(absl::Span<const OwnerItem* const> items) override;
  BatchResults<LookupResult> LookupBatch(absl::Span<const LookupItem* const> items) override;
  BatchResults<ProbeResult> ProbeBatch(absl::Span<const LookupItem* const> items) override;
  BatchResults<bool> KeepRefusedBatch(absl::Span<const OwnerItem* const> items) override;
  absl::StatusOr<int64_t> CountBlocks() override;
  absl::StatusOr<std::vector<SweptRecord>> SweepStep(BlockRange range,
                                                     absl::Duration grace) override;
  absl::StatusOr<Survey> SurveyStep(BlockRange range) override;
  absl::StatusOr<int64_t> PurgeStep(BlockRange range) override;
  absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(BlockRange range,
                                                              absl::Duration max_age) override;
  absl::Status Check() override;
  absl::StatusOr<ClockState> ReadClock() override;
  absl::StatusOr<ClockState> RefreshClock(bool saw_drift) override;
  std::optional<DatabaseIdentity> Identity() const override { return identity_; }

 private:
  // Every call, as it begins.
  ModelDatabase* Connect();

  ModelDatabase* const database_;
  std::optional<DatabaseIdentity> identity_;
};

// `database` must outlive the factory and its stores.
StoreFactory MakeModelStoreFactory(ModelDatabase* database);

}  // namespace idempotency
