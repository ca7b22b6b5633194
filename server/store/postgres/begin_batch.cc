#include <array>
#include <memory>
#include <utility>

#include "server/record/decide.h"
#include "server/store/postgres/codec.h"
#include "server/store/postgres/locked_write.h"
#include "server/store/postgres/store_batches.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;
using BeginBatch = Batch<BeginItem, BeginResult>;

// A row may vanish (be purged) between two statements; the experiment saw that thousands of times
// and never twice in a row.
constexpr int kMaxClaims = 2;

int32_t TtlSeconds(const BeginItem& item) {
  return static_cast<int32_t>(absl::ToInt64Seconds(item.ttl));
}

int32_t LeaseMillis(const BeginItem& item) {
  return static_cast<int32_t>(absl::ToInt64Milliseconds(item.lease_duration));
}

// begin_insert.sql's.
Params InsertParams(const BeginBatch& batch, PlacesView places, const ClockGuard& guard) {
  const size_t n = places.size();
  ArrayParam merchant(PgType::kText, n), key(PgType::kText, n), fingerprint(PgType::kBytea, n),
      operation(PgType::kText, n), attempt(PgType::kUuid, n), ttl(PgType::kInt4, n),
      lease(PgType::kInt4, n), flags(PgType::kInt2, n), labels(PgType::kBytea, n);
  for (const size_t place : places) {
    const BeginItem& item = *batch.items[place];
    merchant.Bytes(item.key.merchant_id);
    key.Bytes(item.key.idempotency_key);
    fingerprint.Bytes(BytesOf(item.fingerprint));
    operation.Bytes(item.operation);
    attempt.Uuid(item.attempt.bytes);
    ttl.Int4(TtlSeconds(item));
    lease.Int4(LeaseMillis(item));
    flags.Int2(EncodeFlags(item.hold, false, item.fingerprint_scheme));
    labels.Bytes(EncodeLabels(item.labels));
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key)).Add(std::move(fingerprint));
  params.Add(std::move(operation)).Add(std::move(attempt)).Add(std::move(ttl));
  params.Add(std::move(lease)).Add(std::move(flags)).Add(std::move(labels));
  params.AddTimestamp(guard.reading).AddBytes(EncodeFirstHistory(guard.token_offset_us));
  return params;
}

// begin_insert_one.sql's.
Params InsertOneParams(const BeginItem& item, const ClockGuard& guard) {
  const std::array<uint8_t, 16>& attempt = item.attempt.bytes;
  Params params;
  params.AddBytes(item.key.merchant_id).AddBytes(item.key.idempotency_key);
  params.AddBytes(BytesOf(item.fingerprint)).AddBytes(item.operation);
  params.AddBytes({reinterpret_cast<const char*>(attempt.data()), attempt.size()});
  params.AddInt4(TtlSeconds(item)).AddInt4(LeaseMillis(item));
  params.AddInt2(EncodeFlags(item.hold, false, item.fingerprint_scheme));
  params.AddBytes(EncodeLabels(item.labels));
  params.AddTimestamp(guard.reading).AddBytes(EncodeFirstHistory(guard.token_offset_us));
  return params;
}

std::vector<Statement> InsertStatements(const BeginBatch& batch, PlacesView places, LockWait wait,
                                        const ClockGuard& guard) {
  if (places.size() == 1) {
    return WithLockWait(wait, Query::kBeginInsertOne,
                        InsertOneParams(*batch.items[places.front()], guard));
  }
  return WithLockWait(wait, Query::kBeginInsert, InsertParams(batch, places, guard));
}

// The record that begin_insert.sql made of an item.
std::shared_ptr<const Record> InsertedRecord(const BeginItem& item, const ClockGuard& guard,
                                             RowReader& row) {
  auto record = std::make_shared<Record>();
  record->key = item.key;
  record->operation = item.operation;
  record->fingerprint = item.fingerprint;
  record->fingerprint_scheme = item.fingerprint_scheme;
  record->labels = item.labels;
  record->ttl = item.ttl;
  record->hold = item.hold;
  record->attempt = item.attempt;
  record->lease_duration = item.lease_duration;
  record->created_at = row.Timestamp();
  record->started_at = record->created_at;
  record->fencing_token = absl::ToUnixMicros(record->created_at) + guard.token_offset_us;
  record->lease_expires_at = row.Timestamp();
  return record;
}

// Inserts the rows of keys that have none, and answers those.
std::optional<PipelineFailure> Insert(BatchRun& run, BeginBatch& batch, PlacesView places) {
  return run.Do(places, [&](PlacesView part, LockWait wait) -> std::optional<PipelineFailure> {
    const auto [guard, unknown] = run.clock().ForInsert();
    if (unknown.has_value()) return unknown;
    const PipelineOutcome outcome =
        run.session().Run(InsertStatements(batch, part, wait, guard), AnswersFrom::kItsWrites);
    if (outcome.failure.has_value()) {
      if (outcome.failure->effect == Effect::kLost) run.MarkWritten(part);
      return outcome.failure;
    }
    const PGresult* rows = outcome.results.back().get();
    absl::Status status = CheckShape(
        rows, {PgType::kText, PgType::kText, PgType::kTimestamptz, PgType::kTimestamptz});
    // The rows come in the order of the items, some items without a row.
    auto place = part.begin();
    for (int i = 0; status.ok() && i < PQntuples(rows); ++i) {
      RowReader row(rows, i);
      const RecordKey key{std::string(row.Bytes()), std::string(row.Bytes())};
      while (place != part.end() && batch.items[*place]->key != key) ++place;
      if (place == part.end()) {
        status = absl::InternalError("begin_insert: a row that no item asked for");
        break;
      }
      BeginResult result;
      result.verdict = BeginVerdict::kStarted;
      result.wrote_attempt = true;
      result.record = InsertedRecord(*batch.items[*place], guard, row);
      result.reading = {.now = result.record->created_at, .token_offset_us = guard.token_offset_us};
      status = row.status();
      if (!status.ok()) break;
      run.MarkWritten(*place);
      run.MarkAnswered(*place);
      batch.results[*place] = std::move(result);
      ++place;
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

std::optional<PipelineFailure> BeginOnce(const Policy& policy, BatchRun& run, BeginBatch& batch) {
  const Keys keys = KeysOf(batch.items);
  const auto decide = [&](const FoundRow& row) -> std::optional<Record> {
    BeginDecision decision =
        DecideBegin(row.record.get(), *batch.items[row.place], row.reading, policy);
    batch.results[row.place].verdict = decision.verdict;
    batch.results[row.place].repeated = decision.repeated;
    return std::move(decision.next);
  };
  const auto answer = [&](const FoundRow& row) {
    BeginResult& result = batch.results[row.place];
    result.wrote_attempt = result.verdict == BeginVerdict::kStarted && run.MayBeWritten(row.place);
    result.record = row.record;
    result.reading = row.reading;
    run.MarkAnswered(row.place);
  };

  for (int claim = 0; claim < kMaxClaims; ++claim) {
    if (auto failure = Insert(run, batch, run.Open())) return failure;
    // What did not come back has a row; a new statement has a new snapshot and sees it.
    Places to_write;
    auto failure = ReadRows(run, keys, run.Open(), [&](const FoundRow& row) {
      if (row.record == nullptr) return;
      if (decide(row).has_value()) {
        // It is read again, under its lock.
        run.GiveAnswerRoomBack(row.bytes);
        to_write.push_back(row.place);
      } else {
        answer(row);
      }
    });
    if (failure.has_value()) return failure;
    failure = LockAndWrite(run, keys, to_write, decide, [&](const FoundRow& row) {
      if (row.record != nullptr) answer(row);
    });
    if (failure.has_value()) return failure;
    // Vanished in between: claimed once more.
    if (run.Open().empty()) return std::nullopt;
  }
  for (const size_t place : run.Open()) {
    run.SetFault(place, Fault::kStoreUnavailable, "the row keeps vanishing");
  }
  return std::nullopt;
}

}  // namespace idempotency
