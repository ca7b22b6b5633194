#include "server/store/postgres/locked_write.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/codec.h"
#include "server/store/postgres/rows.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

PipelineFailure BrokenAnswer(absl::string_view message) {
  return {Effect::kRejected, ErrorKind::kItem, std::string(message)};
}

// Rows of read.sql or lock.sql as FoundRows, one for each of `places`. A row that cannot be decoded
// gets its fault and is left out.
absl::StatusOr<std::vector<FoundRow>> FindRows(BatchRun& run, const Keys& keys, PlacesView places,
                                               const PGresult* result) {
  RETURN_IF_ERROR(
      CheckShape(result, {PgType::kInt4, PgType::kTimestamptz, PgType::kTimestamptz, PgType::kInt4,
                          PgType::kInt4, PgType::kInt4, PgType::kUuid, PgType::kInt2, PgType::kInt2,
                          PgType::kTimestamptz, PgType::kBytea, PgType::kBytea, PgType::kBytea,
                          PgType::kBytea, PgType::kText, PgType::kTimestamptz}));
  std::vector<FoundRow> found(places.size());
  std::vector<bool> is_broken(places.size());
  for (size_t i = 0; i < places.size(); ++i) found[i].place = places[i];
  for (int i = 0; i < PQntuples(result); ++i) {
    RowReader row(result, i);
    const auto at = static_cast<size_t>(row.Int4()) - 1;
    if (!row.status().ok() || at >= places.size()) return absl::InternalError("a row out of place");
    if (row.IsNull()) {  // created_at: the key has no row
      RowReader reading(result, i, 15);
      found[at].now = reading.Timestamp();
      continue;
    }
    absl::StatusOr<Record> record = DecodeRecord(*keys[places[at]], row);
    found[at].now = row.Timestamp();
    if (record.ok()) {
      found[at].record = std::make_shared<const Record>(*std::move(record));
    } else {
      is_broken[at] = true;
      run.SetFault(places[at], Fault::kInternal,
                   absl::StrCat("a row that cannot be read: ", record.status().message()));
    }
  }
  std::vector<FoundRow> whole;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!is_broken[i]) whole.push_back(std::move(found[i]));
  }
  return whole;
}

// The second half of LockAndWrite: decides on the locked rows and ends the transaction.
std::optional<PipelineFailure> WriteLocked(BatchRun& run, std::vector<FoundRow>& rows,
                                           const DecideOnRow& decide) {
  std::vector<Record> records;
  std::vector<size_t> written;  // indexes of `rows`
  records.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].record == nullptr) continue;
    if (std::optional<Record> next = decide(rows[i])) {
      records.push_back(*std::move(next));
      written.push_back(i);
    }
  }
  if (records.empty()) {
    // What was read stays true whether or not the rollback is answered.
    run.session().Continue({{Query::kTransactionRollback, {}}});
    return std::nullopt;
  }
  std::vector<RowToWrite> to_write;
  Places places;
  for (size_t i = 0; i < records.size(); ++i) {
    const FoundRow& row = rows[written[i]];
    to_write.push_back({&records[i], records[i].answer == row.record->answer});
    places.push_back(row.place);
  }
  const PipelineOutcome outcome = run.session().Continue(
      {{Query::kWrite, EncodeRows(to_write)}, {Query::kTransactionCommit, {}}});
  if (outcome.failure.has_value()) {
    if (outcome.failure->effect == Effect::kLost) run.MarkWritten(places);
    return outcome.failure;
  }
  run.MarkWritten(places);
  if (std::atoll(PQcmdTuples(outcome.results[0].get())) != static_cast<int64_t>(records.size())) {
    // Cannot be while the rows are locked; what was written is not known, so nothing is claimed.
    for (const size_t place : places) {
      run.SetFault(place, Fault::kInternal, "write: another number of rows than were locked");
    }
    return std::nullopt;
  }
  for (size_t i = 0; i < records.size(); ++i) {
    rows[written[i]].record = std::make_shared<const Record>(std::move(records[i]));
  }
  return std::nullopt;
}

}  // namespace

Params KeyParams(const Keys& keys, PlacesView places) {
  ArrayParam merchant(PgType::kText, places.size());
  ArrayParam key(PgType::kText, places.size());
  for (const size_t place : places) {
    merchant.Bytes(keys[place]->merchant_id);
    key.Bytes(keys[place]->idempotency_key);
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key));
  return params;
}

std::optional<PipelineFailure> ReadRows(BatchRun& run, const Keys& keys, PlacesView places,
                                        const std::function<void(const FoundRow&)>& found) {
  return run.Do(places, [&](PlacesView part, LockWait) -> std::optional<PipelineFailure> {
    const PipelineOutcome outcome = run.session().Run({{Query::kRead, KeyParams(keys, part)}});
    if (outcome.failure.has_value()) return outcome.failure;
    const auto rows = FindRows(run, keys, part, outcome.results[0].get());
    if (!rows.ok()) return BrokenAnswer(rows.status().message());
    for (const FoundRow& row : *rows) found(row);
    return std::nullopt;
  });
}

std::optional<PipelineFailure> LockAndWrite(BatchRun& run, const Keys& keys, PlacesView places,
                                            const DecideOnRow& decide, const RowDone& done) {
  return run.Do(places, [&](PlacesView part, LockWait wait) -> std::optional<PipelineFailure> {
    std::vector<Statement> lock = WithLockWait(wait, Query::kLock, KeyParams(keys, part));
    lock.insert(lock.begin(), {Query::kTransactionBegin, {}});
    const PipelineOutcome locked = run.session().Run(lock);
    if (locked.failure.has_value()) return locked.failure;
    auto rows = FindRows(run, keys, part, locked.results.back().get());
    if (!rows.ok()) {
      run.session().Continue({{Query::kTransactionRollback, {}}});
      return BrokenAnswer(rows.status().message());
    }
    if (auto failure = WriteLocked(run, *rows, decide)) return failure;
    for (const FoundRow& row : *rows) {
      if (!run.HasFault(row.place)) done(row);
    }
    return std::nullopt;
  });
}

}  // namespace idempotency
