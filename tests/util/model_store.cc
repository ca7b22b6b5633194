#include "tests/util/model_store.h"

#include <algorithm>
#include <string>

#include "server/base/check.h"
#include "server/record/fault.h"
#include "tests/util/model_state_machine.h"

namespace idempotency {
namespace {

absl::Time WholeMicros(absl::Time time) { return absl::FromUnixMicros(absl::ToUnixMicros(time)); }

// After a write the real store returns these fields and no others (store.h): the fake must not give
// the engine more to rely on.
Record AfterWrite(const Record& row) {
  Record told;
  told.key = row.key;
  told.created_at = row.created_at;
  told.attempt = row.attempt;
  told.attempt_number = row.attempt_number;
  told.state = row.state;
  told.finished_at = row.finished_at;
  told.answer = row.answer;
  told.lease_expires_at = row.lease_expires_at;
  told.lease_duration = row.lease_duration;
  return told;
}

// A status of its own for every answer: copies share their content, and the packaged Abseil, which
// is not instrumented, would make ThreadSanitizer report that as a race.
absl::Status Unshared(const absl::Status& fault) {
  return MakeFault(FaultOf(fault), fault.message());
}

template <typename Item>
void CheckSortedAndDistinct(absl::Span<const Item* const> items) {
  for (size_t i = 1; i < items.size(); ++i) {
    IDEM_CHECK(items[i - 1]->key < items[i]->key) << "a batch is sorted and its keys distinct";
  }
}

}  // namespace

ModelDatabase::ModelDatabase(const Policy& policy, absl::Time now)
    : policy_(policy), now_(WholeMicros(now)) {
  guard_.reading = now_;
}

absl::Time ModelDatabase::Now() {
  MutexLock lock(&mu_);
  return now_;
}

void ModelDatabase::AdvanceClock(absl::Duration by) {
  MutexLock lock(&mu_);
  now_ = WholeMicros(now_ + by);
  Watched();
}

void ModelDatabase::Watched() {
  guard_.reading = now_;
  guard_.last_jump_at = std::min(guard_.last_jump_at, now_);
}

void ModelDatabase::JumpClock(absl::Duration by) {
  MutexLock lock(&mu_);
  now_ = WholeMicros(now_ + by);
}

Reading ModelDatabase::ReadingLocked() {
  return ModelReading(guard_, now_, guard_identity_ == identity_, policy_);
}

ClockState ModelDatabase::ClockStateLocked() {
  return {now_, guard_, last_jump_, guard_identity_ == identity_};
}

void ModelDatabase::SetClock(absl::Time now) {
  MutexLock lock(&mu_);
  now_ = WholeMicros(now);
  Watched();
}

std::optional<Record> ModelDatabase::Find(const RecordKey& key) {
  MutexLock lock(&mu_);
  const Record* record = FindLocked(key);
  if (record == nullptr) return std::nullopt;
  return *record;
}

void ModelDatabase::Put(Record record) {
  MutexLock lock(&mu_);
  rows_.insert_or_assign(record.key, record);
}

void ModelDatabase::Erase(const RecordKey& key) {
  MutexLock lock(&mu_);
  rows_.erase(key);
}

size_t ModelDatabase::Size() {
  MutexLock lock(&mu_);
  return rows_.size();
}

void ModelDatabase::FailNext(BatchKind kind, absl::Status fault, FaultMoment moment) {
  IDEM_CHECK(!fault.ok()) << "a fault is not ok";
  MutexLock lock(&mu_);
  faults_.push_back({kind, std::move(fault), moment});
}

void ModelDatabase::FailKey(const RecordKey& key, absl::Status fault) {
  IDEM_CHECK(!fault.ok()) << "a fault is not ok";
  MutexLock lock(&mu_);
  key_faults_.insert_or_assign(key, std::move(fault));
}

void ModelDatabase::ClearKeyFault(const RecordKey& key) {
  MutexLock lock(&mu_);
  key_faults_.erase(key);
}

void ModelDatabase::SetIdentity(const DatabaseIdentity& identity) {
  MutexLock lock(&mu_);
  identity_ = identity;
}

void ModelDatabase::SetCheck(absl::Status status) {
  MutexLock lock(&mu_);
  check_ = std::move(status);
}

void ModelDatabase::SetClockFault(absl::Status read, absl::Status refresh) {
  MutexLock lock(&mu_);
  read_clock_fault_ = std::move(read);
  refresh_clock_fault_ = std::move(refresh);
}

ClockGuard ModelDatabase::Guard() {
  MutexLock lock(&mu_);
  return guard_;
}

void ModelDatabase::CloseGate() {
  MutexLock lock(&mu_);
  gate_closed_ = true;
}

void ModelDatabase::OpenGate() {
  MutexLock lock(&mu_);
  gate_closed_ = false;
  gate_moved_.NotifyAll();
}

bool ModelDatabase::AwaitAtGate(size_t batches) {
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  MutexLock lock(&mu_);
  while (at_gate_ < batches) {
    const absl::Duration left = give_up - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    gate_moved_.WaitFor(&mu_, left);
  }
  return true;
}

std::vector<SeenBatch> ModelDatabase::Batches() {
  MutexLock lock(&mu_);
  return batches_;
}

size_t ModelDatabase::CountBatches(BatchKind kind) {
  MutexLock lock(&mu_);
  return static_cast<size_t>(
      std::count_if(batches_.begin(), batches_.end(),
                    [kind](const SeenBatch& batch) { return batch.kind == kind; }));
}

void ModelDatabase::ArriveLocked(SeenBatch batch) {
  batches_.push_back(batch);
  ++at_gate_;
  gate_moved_.NotifyAll();
  while (gate_closed_) gate_moved_.Wait(&mu_);
  --at_gate_;
}

const Record* ModelDatabase::FindLocked(const RecordKey& key) {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : &found->second;
}

template <typename Result, typename Item>
BatchResults<Result> ModelDatabase::Run(BatchKind kind, absl::Span<const Item* const> items,
                                        Result (ModelDatabase::*decide)(const Item&)) {
  CheckSortedAndDistinct(items);
  MutexLock lock(&mu_);
  ArriveLocked({kind, items.size()});

  std::optional<InjectedFault> fault;
  const auto found =
      std::find_if(faults_.begin(), faults_.end(),
                   [kind](const InjectedFault& injected) { return injected.kind == kind; });
  if (found != faults_.end()) {
    fault = *found;
    faults_.erase(found);
  }

  BatchResults<Result> results;
  results.reserve(items.size());
  for (const Item* item : items) {
    const auto refused = key_faults_.find(item->key);
    if (fault.has_value() && fault->moment == FaultMoment::kBeforeCommit) {
      results.push_back(Unshared(fault->status));
    } else if (refused != key_faults_.end()) {
      results.push_back(Unshared(refused->second));
    } else {
      Result result = (this->*decide)(*item);
      if (fault.has_value()) {
        results.push_back(Unshared(fault->status));
      } else {
        results.push_back(std::move(result));
      }
    }
  }
  return results;
}

BeginResult ModelDatabase::BeginLocked(const BeginItem& item) {
  const Record* const found = FindLocked(item.key);
  Reading reading = ReadingLocked();
  // A clock that was set back and nobody noticed: a new record is begun as if just before the step.
  if (found == nullptr) {
    reading = {.now = std::max(now_, guard_.reading), .token_offset_us = guard_.token_offset_us};
  }
  ModelBegin decision = ModelDecideBegin(found, item, reading, policy_);
  BeginResult result;
  result.wrote_attempt = decision.row.has_value();
  if (decision.row.has_value()) rows_.insert_or_assign(item.key, *std::move(decision.row));
  result.verdict = decision.verdict;
  result.repeated = decision.repeated;
  result.record = std::make_shared<const Record>(*FindLocked(item.key));
  result.reading = reading;
  return result;
}

OwnerResult ModelDatabase::OwnerLocked(const OwnerItem& item) {
  ModelOwner decision = ModelDecideOwner(FindLocked(item.key), item, ReadingLocked(), policy_);
  const bool wrote = decision.row.has_value();
  if (wrote) rows_.insert_or_assign(item.key, *std::move(decision.row));
  OwnerResult result;
  result.verdict = decision.verdict;
  if (const Record* record = FindLocked(item.key); record != nullptr) {
    result.record = std::make_shared<const Record>(wrote ? AfterWrite(*record) : *record);
  }
  result.reading = ReadingLocked();
  return result;
}

LookupResult ModelDatabase::LookupLocked(const LookupItem& item) {
  LookupResult result;
  if (const Record* record = FindLocked(item.key); record != nullptr) {
    result.record = std::make_shared<const Record>(*record);
  }
  result.reading = ReadingLocked();
  return result;
}

ProbeResult ModelDatabase::ProbeLocked(const LookupItem& item) {
  ProbeResult result;
  if (const Record* record = FindLocked(item.key); record != nullptr) {
    result.sign = RecordSign{record->created_at, record->state, record->attempt_number,
                             record->lease_expires_at};
  }
  result.now = now_;
  return result;
}

bool ModelDatabase::KeepRefusedLocked(const OwnerItem& item) {
  std::optional<Record> row = ModelKeepRefused(FindLocked(item.key), item, now_);
  if (!row.has_value()) return false;
  rows_.insert_or_assign(item.key, *std::move(row));
  return true;
}

std::vector<SweptRecord> ModelDatabase::WalkLocked(
    BlockRange range, bool erase, const std::function<bool(const Record&)>& matches) {
  std::vector<SweptRecord> found;
  if (range.first > 0 || range.last <= 0) return found;
  for (auto row = rows_.begin(); row != rows_.end();) {
    if (!matches(row->second)) {
      ++row;
      continue;
    }
    if (!erase) row->second.state = RecordState::kSwept;
    const Record& record = row->second;
    found.push_back({record.key, record.created_at, record.attempt_number, record.state});
    row = erase ? rows_.erase(row) : std::next(row);
  }
  return found;
}

ModelDatabase* ModelStore::Connect() {
  MutexLock lock(&database_->mu_);
  identity_ = database_->identity_;
  return database_;
}

BatchResults<BeginResult> ModelStore::BeginBatch(absl::Span<const BeginItem* const> items) {
  return Connect()->Run(BatchKind::kBegin, items, &ModelDatabase::BeginLocked);
}

BatchResults<OwnerResult> ModelStore::OwnerBatch(absl::Span<const OwnerItem* const> items) {
  return Connect()->Run(BatchKind::kOwner, items, &ModelDatabase::OwnerLocked);
}

BatchResults<LookupResult> ModelStore::LookupBatch(absl::Span<const LookupItem* const> items) {
  return Connect()->Run(BatchKind::kLookup, items, &ModelDatabase::LookupLocked);
}

BatchResults<ProbeResult> ModelStore::ProbeBatch(absl::Span<const LookupItem* const> items) {
  return Connect()->Run(BatchKind::kProbe, items, &ModelDatabase::ProbeLocked);
}

BatchResults<bool> ModelStore::KeepRefusedBatch(absl::Span<const OwnerItem* const> items) {
  return Connect()->Run(BatchKind::kKeepRefused, items, &ModelDatabase::KeepRefusedLocked);
}

absl::StatusOr<int64_t> ModelStore::CountBlocks() {
  Connect();
  return 1;
}

absl::StatusOr<std::vector<SweptRecord>> ModelStore::SweepStep(BlockRange range,
                                                               absl::Duration grace) {
  Connect();
  MutexLock lock(&database_->mu_);
  const Reading reading = database_->ReadingLocked();
  const Policy& policy = database_->policy_;
  return database_->WalkLocked(range, /*erase=*/false, [&](const Record& record) {
    return ModelMaySweep(record, reading, grace, policy);
  });
}

absl::StatusOr<Survey> ModelStore::SurveyStep(BlockRange range) {
  Connect();
  MutexLock lock(&database_->mu_);
  Survey survey;
  if (range.first > 0 || range.last <= 0) return survey;
  const Reading reading = database_->ReadingLocked();
  const Policy& policy = database_->policy_;
  for (const auto& [key, record] : database_->rows_) {
    if (record.state == RecordState::kInProgress) {
      ++survey.in_progress;
      survey.oldest_in_progress =
          std::max(survey.oldest_in_progress, reading.now - record.created_at);
    }
    if (ModelMaySweep(record, reading, absl::ZeroDuration(), policy)) ++survey.lease_over;
    if (record.state == RecordState::kSwept || record.state == RecordState::kFailedUnknown) {
      ++survey.abandoned;
    }
    if (ModelMayPurge(record, reading, policy)) ++survey.expired;
  }
  return survey;
}

absl::StatusOr<int64_t> ModelStore::PurgeStep(BlockRange range) {
  Connect();
  MutexLock lock(&database_->mu_);
  const Reading reading = database_->ReadingLocked();
  const Policy& policy = database_->policy_;
  const auto purged = database_->WalkLocked(range, /*erase=*/true, [&](const Record& record) {
    return ModelMayPurge(record, reading, policy);
  });
  return static_cast<int64_t>(purged.size());
}

absl::StatusOr<std::vector<SweptRecord>> ModelStore::PurgeUnsettledStep(BlockRange range,
                                                                        absl::Duration max_age) {
  Connect();
  MutexLock lock(&database_->mu_);
  const Reading reading = database_->ReadingLocked();
  const Policy& policy = database_->policy_;
  return database_->WalkLocked(range, /*erase=*/true, [&](const Record& record) {
    return ModelMayPurgeUnsettled(record, reading, max_age, policy);
  });
}

absl::StatusOr<ClockState> ModelStore::ReadClock() {
  Connect();
  MutexLock lock(&database_->mu_);
  if (!database_->read_clock_fault_.ok()) return database_->read_clock_fault_;
  return database_->ClockStateLocked();
}

absl::StatusOr<ClockState> ModelStore::RefreshClock(bool saw_drift) {
  Connect();
  MutexLock lock(&database_->mu_);
  if (!database_->refresh_clock_fault_.ok()) return database_->refresh_clock_fault_;
  const ModelRefreshed refreshed = ModelRefresh(database_->guard_, database_->now_,
                                                database_->guard_identity_ == database_->identity_,
                                                saw_drift, database_->policy_);
  database_->guard_ = refreshed.guard;
  database_->guard_identity_ = database_->identity_;
  database_->last_jump_ = refreshed.jump.value_or(database_->last_jump_);
  return database_->ClockStateLocked();
}

absl::Status ModelStore::Check() {
  Connect();
  MutexLock lock(&database_->mu_);
  return database_->check_;
}

StoreFactory MakeModelStoreFactory(ModelDatabase* database) {
  return [database] { return std::make_unique<ModelStore>(database); };
}

}  // namespace idempotency
