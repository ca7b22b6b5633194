#include <memory>
#include <utility>

#include "server/base/check.h"
#include "server/record/decide.h"
#include "server/store/postgres/codec.h"
#include "server/store/postgres/locked_write.h"
#include "server/store/postgres/store_batches.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;
using OwnerBatch = Batch<OwnerItem, OwnerResult>;

Params UpdateParams(const OwnerBatch& batch, PlacesView places) {
  const size_t n = places.size();
  ArrayParam merchant(PgType::kText, n), key(PgType::kText, n), attempt(PgType::kUuid, n),
      state(PgType::kInt2, n), outcome(PgType::kBytea, n), lease(PgType::kInt4, n);
  for (const size_t place : places) {
    const OwnerItem& item = *batch.items[place];
    const RecordState reached =
        item.IsRenew() ? RecordState::kInProgress : StateAfter(*item.answer);
    merchant.Bytes(item.key.merchant_id);
    key.Bytes(item.key.idempotency_key);
    attempt.Uuid(item.attempt.bytes);
    state.Int2(static_cast<int16_t>(reached));
    outcome.Bytes(EncodeAnswer(item.answer.get()));
    lease.Int4(static_cast<int32_t>(absl::ToInt64Milliseconds(item.lease_duration)));
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key)).Add(std::move(attempt));
  params.Add(std::move(state)).Add(std::move(outcome)).Add(std::move(lease));
  return params;
}

// A row of owner_update.sql, after its place.
OwnerResult UpdatedResult(const OwnerItem& item, RowReader& row) {
  auto record = std::make_shared<Record>();
  record->key = item.key;
  record->attempt = item.attempt;
  record->answer = item.answer;
  record->created_at = row.Timestamp();
  record->lease_expires_at = row.Timestamp();
  record->lease_duration = absl::Milliseconds(row.Int4());
  record->attempt_number = row.Int4();
  record->state = static_cast<RecordState>(row.Int2());
  const absl::Time finished_at = row.Timestamp();
  if (!item.IsRenew()) record->finished_at = finished_at;
  OwnerResult result;
  result.verdict = item.IsRenew() ? OwnerVerdict::kRenewed : OwnerVerdict::kRecorded;
  result.record = std::move(record);
  result.reading.now = row.Timestamp();
  return result;
}

// Writes where the attempt is the last one and nothing is recorded yet, and answers those.
std::optional<PipelineFailure> Update(BatchRun& run, OwnerBatch& batch, PlacesView places) {
  return run.Do(places, [&](PlacesView part, LockWait wait) -> std::optional<PipelineFailure> {
    const PipelineOutcome outcome =
        run.session().Run(WithLockWait(wait, Query::kOwnerUpdate, UpdateParams(batch, part)),
                          AnswersFrom::kItsWrites);
    if (outcome.failure.has_value()) {
      if (outcome.failure->effect == Effect::kLost) run.MarkWritten(part);
      return outcome.failure;
    }
    const PGresult* rows = outcome.results.back().get();
    absl::Status status = CheckShape(
        rows, {PgType::kInt4, PgType::kTimestamptz, PgType::kTimestamptz, PgType::kInt4,
               PgType::kInt4, PgType::kInt2, PgType::kTimestamptz, PgType::kTimestamptz});
    for (int i = 0; status.ok() && i < PQntuples(rows); ++i) {
      RowReader row(rows, i);
      const auto at = static_cast<size_t>(row.Int4()) - 1;
      if (at >= part.size()) {
        status = absl::InternalError("owner_update: a row out of place");
        break;
      }
      OwnerResult result = UpdatedResult(*batch.items[part[at]], row);
      status = row.status();
      if (!status.ok()) break;
      run.MarkWritten(part[at]);
      run.MarkAnswered(part[at]);
      batch.results[part[at]] = std::move(result);
    }
    // Committed, but not understood: what was written is found again when the batch is repeated.
    if (!status.ok()) {
      run.MarkWritten(part);
      return PipelineFailure{Effect::kLost, ErrorKind::kLost, std::string(status.message())};
    }
    return std::nullopt;
  });
}

}  // namespace

std::optional<PipelineFailure> OwnerOnce(const Policy& policy, BatchRun& run, OwnerBatch& batch) {
  const Keys keys = KeysOf(batch.items);
  const auto decide = [&](const FoundRow& row) -> std::optional<Record> {
    OwnerDecision decision =
        DecideOwner(row.record.get(), *batch.items[row.place], row.reading, policy);
    batch.results[row.place].verdict = decision.verdict;
    return std::move(decision.next);
  };
  const auto answer = [&](const FoundRow& row) {
    OwnerResult& result = batch.results[row.place];
    if (row.record == nullptr) result.verdict = OwnerVerdict::kRecordNotFound;
    result.record = row.record;
    result.reading = row.reading;
    run.MarkAnswered(row.place);
  };

  if (auto failure = Update(run, batch, run.Open())) return failure;
  Places to_write;
  auto failure = ReadRows(run, keys, run.Open(), [&](const FoundRow& row) {
    if (decide(row).has_value()) {
      // It is read again, under its lock.
      run.GiveAnswerRoomBack(row.bytes);
      to_write.push_back(row.place);
    } else {
      answer(row);
    }
  });
  if (failure.has_value()) return failure;
  return LockAndWrite(run, keys, to_write, decide, answer);
}

std::optional<PipelineFailure> KeepRefusedOnce(BatchRun& run, Batch<OwnerItem, bool>& batch) {
  for (const OwnerItem* item : batch.items) {
    IDEM_CHECK(!item->IsRenew()) << "only a refused Complete or Fail is kept";
  }
  const auto decide = [&](const FoundRow& row) {
    std::optional<Record> next = KeepRefused(*row.record, *batch.items[row.place], row.reading.now);
    batch.results[row.place] = next.has_value();
    return next;
  };
  const auto answer = [&](const FoundRow& row) {
    if (row.record == nullptr) batch.results[row.place] = false;
    run.MarkAnswered(row.place);
  };
  // Nobody waits for this, but the lane's next batch waits behind it.
  return LockAndWrite(run, KeysOf(batch.items), run.Open(), decide, answer, Outcomes::kAreDropped,
                      LockWait::kShort);
}

}  // namespace idempotency
