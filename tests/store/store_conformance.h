// The executable contract of Store: every implementation passes this suite.
//
// The cases are spread over the *_conformance.cc files of this folder; conformance_instances.cc
// names the implementations. A new behaviour of a store starts as a case here. Time stands still
// but for AdvanceClock.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"
#include "tests/util/describe.h"

namespace idempotency {

// A database without records, and the way to stores on it. For one thread, but for the stores.
class StoreSubject {
 public:
  virtual ~StoreSubject() = default;
  // A store of its own connection. The subject must outlive it.
  virtual std::unique_ptr<Store> Connect() = 0;
  virtual absl::Time Now() = 0;
  // Time passes, while replicas write the clock's reading into the guard's row. `by` may be
  // negative: then the row is set back, too, as nothing real does.
  virtual void AdvanceClock(absl::Duration by) = 0;
  // The clock jumps, and no replica has noticed it yet.
  virtual void JumpClock(absl::Duration by) = 0;
};

struct StoreImplementation {
  const char* name;
  std::function<std::unique_ptr<StoreSubject>(const Policy& policy)> make;
};
inline void PrintTo(const StoreImplementation& implementation, std::ostream* out) {
  *out << implementation.name;
}

// Every implementation that the suite runs on (conformance_instances.cc).
std::vector<StoreImplementation> StoreImplementations();
// Names the instances of a suite: All/StoreConformance.CompleteIsRecorded/Postgres.
inline std::string ImplementationName(
    const ::testing::TestParamInfo<StoreImplementation>& implementation) {
  return implementation.param.name;
}

// Calls as batches of one item, and the values that most cases use. Every call through these
// helpers also checks what holds for all results: the record is the stored one, the reading is the
// clock's.
class StoreConformance : public ::testing::TestWithParam<StoreImplementation> {
 protected:
  static constexpr absl::Duration kMicro = absl::Microseconds(1);
  static constexpr absl::Duration kLease = absl::Seconds(60);
  static constexpr absl::Duration kTtl = absl::Hours(24);
  static constexpr absl::Duration kMargin = absl::Seconds(2);
  static constexpr absl::Duration kReplayWindow = absl::Hours(1);
  static constexpr absl::Duration kTakeoverWindow = absl::Hours(12);
  static constexpr absl::Duration kShortestLease = absl::Seconds(1);
  static Policy TestPolicy();

  void SetUp() override;

  // Attempt n's proof.
  static AttemptHash Attempt(int n);
  // Merchant "m1" unless the key is given with its merchant.
  static RecordKey Key(absl::string_view key);
  static BeginItem Request(const RecordKey& key, int attempt);
  static BeginItem Request(absl::string_view key, int attempt) {
    return Request(Key(key), attempt);
  }
  static OwnerItem Answered(const RecordKey& key, int attempt, const Answer& answer);
  static Outcome Paid(int32_t status_code = 201);
  static Failure Failed(Disposition disposition, const std::string& code = "declined");

  BeginResult Begin(const BeginItem& item);
  BeginResult Begin(absl::string_view key, int attempt) { return Begin(Request(key, attempt)); }
  OwnerResult Complete(absl::string_view key, int attempt, const Outcome& outcome = Paid());
  OwnerResult Fail(absl::string_view key, int attempt, const Failure& failure);
  OwnerResult Fail(absl::string_view key, int attempt, Disposition disposition);
  OwnerResult Renew(absl::string_view key, int attempt, absl::Duration lease = kLease);
  OwnerResult Call(const OwnerItem& item);
  bool KeepRefused(const OwnerItem& item);
  // Null: there is none.
  std::shared_ptr<const Record> Lookup(const RecordKey& key);
  std::shared_ptr<const Record> Lookup(absl::string_view key) { return Lookup(Key(key)); }
  // Every field of the stored record as text.
  std::string Stored(absl::string_view key);

  // Maintenance over the whole table.
  std::vector<SweptRecord> Sweep(absl::Duration grace);
  int64_t Purge();
  BlockRange WholeTable() { return {0, *store().CountBlocks()}; }
  Survey WholeSurvey() { return *store().SurveyStep(WholeTable()); }
  std::vector<SweptRecord> PurgeUnsettled(absl::Duration max_age);

  void AdvanceClock(absl::Duration by) { subject_->AdvanceClock(by); }
  void JumpClock(absl::Duration by) { subject_->JumpClock(by); }
  // To 1 µs after the instant at which the lease of a just started attempt is over.
  void PassLease() { AdvanceClock(kLease + kMargin + kMicro); }
  absl::Time Now() { return subject_->Now(); }
  Store& store() { return *store_; }
  StoreSubject& subject() { return *subject_; }

 private:
  BlockRange AllBlocks();

  std::unique_ptr<StoreSubject> subject_;
  std::unique_ptr<Store> store_;
};

// Pointers to the items, as the batch functions take them. `items` must outlive the result.
template <typename Item>
std::vector<const Item*> PointersTo(const std::vector<Item>& items) {
  std::vector<const Item*> pointers;
  for (const Item& item : items) pointers.push_back(&item);
  return pointers;
}

}  // namespace idempotency
