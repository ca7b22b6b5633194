// A Store of the simulation: the model store, reached over a line on which everything may happen
// that store.h allows.
//
// Every batch yields the turn on its way there and on its way back, so that whatever else goes on
// may come between. What it changed is noted in the history before anybody else sees it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/base/clock.h"
#include "server/store/store.h"
#include "tests/simulation/defect.h"
#include "tests/simulation/history.h"
#include "tests/simulation/random.h"
#include "tests/util/model_store.h"

namespace idempotency {

// What the line is like; changed by the simulation as it goes on.
struct Weather {
  // Of so many batches one meets a fault; zero: none does.
  size_t fault_one_in = 0;
  // The database is away altogether.
  bool is_away = false;
};

class FaultyStore final : public Store {
 public:
  // What all stores of a simulation share; all must outlive them.
  struct Shared {
    ModelDatabase* database;
    History* history;
    Random* random;
    Weather* weather;
    Clock* clock;
    Defect defect = Defect::kNone;
  };
  explicit FaultyStore(const Shared& shared) : shared_(shared), inner_(shared.database) {}

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
  absl::Status Check() override { return inner_.Check(); }
  absl::StatusOr<ClockState> ReadClock() override { return inner_.ReadClock(); }
  absl::StatusOr<ClockState> RefreshClock(bool saw_drift) override {
    return inner_.RefreshClock(saw_drift);
  }
  std::optional<DatabaseIdentity> Identity() const override { return inner_.Identity(); }

 private:
  enum class Trouble {
    kNone,
    kUnavailable,     // nothing reached the database
    kLostBefore,      // the commit's answer was lost, and it had not happened
    kLostAfter,       // it was lost, and it had
    kRunAgain,        // lost, and the batch was run again: what holds by then is answered
    kSomeAreLocked,   // other transactions hold some of the rows
    kSomeAreNotRead,  // the answers filled their room
    kOneIsRefused,    // a data error
  };

  template <typename Result, typename Item, typename Run>
  BatchResults<Result> RunBatch(absl::Span<const Item* const> items, bool writes, const Run& run);
  // Runs those of the items for which nothing is said yet.
  template <typename Result, typename Item, typename Run>
  void RunRest(absl::Span<const Item* const> items, const Run& run,
               std::vector<std::optional<absl::StatusOr<Result>>>& said);
  template <typename Result, typename Item>
  void Refuse(Trouble trouble, absl::Span<const Item* const> items,
              std::vector<std::optional<absl::StatusOr<Result>>>& said);
  Trouble Meet(bool writes);
  // What the defect does to a row before and after a batch is run on it, now and then.
  void SpoilBefore(const RecordKey& key);
  void SpoilAfter(const RecordKey& key, const std::optional<Record>& before);
  template <typename Run>
  auto RunMaintenance(const Run& run) -> decltype(run());

  const Shared shared_;
  ModelStore inner_;
};

}  // namespace idempotency
