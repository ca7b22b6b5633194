#include "server/store/postgres/locked_write.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/codec.h"
#include "server/store/postgres/rows.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

// Above this many bytes of outcomes and histories a read holds the further rows back for the next
// one; the last row comes on top. Libpq keeps a whole result in memory.
constexpr int64_t kMaxBytesOfARead = 16 << 20;

// Columns of read.sql and lock.sql.
constexpr int kOutcomeColumn = 10;
constexpr int kHistoryColumn = 11;

PipelineFailure BrokenAnswer(absl::string_view message) {
  return {Effect::kRejected, ErrorKind::kItem, std::string(message)};
}

// Rows of read.sql or lock.sql, followed by clock_read.sql, as FoundRows, one for each of `places`.
// A row that cannot be decoded gets its fault and is left out; so are rows that were held back,
// whose places go to `held_back`.
absl::StatusOr<std::vector<FoundRow>> FindRows(BatchRun& run, const Keys& keys, PlacesView places,
                                               absl::Span<const PgResult> results,
                                               absl::Duration asked_at, Places* held_back) {
  const PGresult* const result = results[results.size() - 2].get();
  ASSIGN_OR_RETURN(const Reading reading,
                   run.clock().ReadingOf(results[results.size() - 1].get(), asked_at));
  RETURN_IF_ERROR(CheckShape(
      result,
      {PgType::kInt4, PgType::kTimestamptz, PgType::kTimestamptz, PgType::kInt4, PgType::kInt4,
       PgType::kInt4, PgType::kUuid, PgType::kInt2, PgType::kInt2, PgType::kTimestamptz,
       PgType::kBytea, PgType::kBytea, PgType::kBytea, PgType::kBytea, PgType::kText}));
  std::vector<FoundRow> found(places.size());
  std::vector<bool> is_broken(places.size());
  std::vector<bool> is_held_back(places.size());
  for (size_t i = 0; i < places.size(); ++i) found[i] = {places[i], nullptr, reading};
  for (int i = 0; i < PQntuples(result); ++i) {
    RowReader row(result, i);
    const auto at = static_cast<size_t>(row.Int4()) - 1;
    if (!row.status().ok() || at >= places.size()) return absl::InternalError("a row out of place");
    if (PQgetisnull(result, i, kOutcomeColumn) == 1) {
      is_held_back[at] = true;
      continue;
    }
    found[at].bytes = static_cast<size_t>(PQgetlength(result, i, kOutcomeColumn)) +
                      static_cast<size_t>(PQgetlength(result, i, kHistoryColumn));
    absl::StatusOr<Record> record = DecodeRecord(*keys[places[at]], row);
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
    if (is_held_back[i]) {
      held_back->push_back(places[i]);
    } else if (!is_broken[i]) {
      whole.push_back(std::move(found[i]));
    }
  }
  // At least the first row comes whole, or reading would have no end.
  if (held_back->size() == places.size()) return absl::InternalError("every row was held back");
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
    return run.session().EndUnwritten();
  }
  std::vector<RowToWrite> to_write;
  Places places;
  for (size_t i = 0; i < records.size(); ++i) {
    const FoundRow& row = rows[written[i]];
    to_write.push_back({&records[i], records[i].answer == row.record->answer});
    places.push_back(row.place);
  }
  // The commit of the written rows covers those that were only found.
  const PipelineOutcome outcome = run.session().Continue(
      {{Query::kWrite, EncodeRows(to_write)}, {Query::kTransactionCommit, {}}},
      AnswersFrom::kItsWrites);
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

// Of read.sql and lock.sql.
Params RowsParams(const Keys& keys, PlacesView places, int64_t max_bytes) {
  ArrayParam merchant(PgType::kText, places.size());
  ArrayParam key(PgType::kText, places.size());
  for (const size_t place : places) {
    merchant.Bytes(keys[place]->merchant_id);
    key.Bytes(keys[place]->idempotency_key);
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key)).AddInt8(max_bytes);
  return params;
}

}  // namespace

std::optional<PipelineFailure> ReadRows(BatchRun& run, const Keys& keys, PlacesView places,
                                        const std::function<void(const FoundRow&)>& found) {
  std::vector<FoundRow> all;
  std::optional<PipelineFailure> failure;
  Places left(places.begin(), places.end());
  while (!left.empty() && !failure.has_value()) {
    Places next;
    failure = run.Do(left, [&](PlacesView part, LockWait) -> std::optional<PipelineFailure> {
      if (run.answer_room() < 0) {
        run.SetNotRead(part);
        return std::nullopt;
      }
      const int64_t max_bytes = std::min(kMaxBytesOfARead, run.answer_room());
      const absl::Duration asked_at = DatabaseClock::AskedAt();
      const PipelineOutcome outcome = run.session().Run(
          {{Query::kRead, RowsParams(keys, part, max_bytes)}, {Query::kClockRead, {}}},
          AnswersFrom::kWhatItFound);
      if (outcome.failure.has_value()) return outcome.failure;
      Places held_back;
      auto rows = FindRows(run, keys, part, outcome.results, asked_at, &held_back);
      if (!rows.ok()) return BrokenAnswer(rows.status().message());
      for (const FoundRow& row : *rows) run.TakeAnswerRoom(row.bytes);
      std::move(rows->begin(), rows->end(), std::back_inserter(all));
      next.insert(next.end(), held_back.begin(), held_back.end());
      return std::nullopt;
    });
    left = std::move(next);
  }
  std::sort(all.begin(), all.end(),
            [](const FoundRow& a, const FoundRow& b) { return a.place < b.place; });
  for (const FoundRow& row : all) found(row);
  return failure;
}

std::optional<PipelineFailure> LockAndWrite(BatchRun& run, const Keys& keys, PlacesView places,
                                            const DecideOnRow& decide, const RowDone& done,
                                            Outcomes outcomes, LockWait lock_wait) {
  const bool are_answers = outcomes == Outcomes::kAreAnswers;
  Places left(places.begin(), places.end());
  while (!left.empty()) {
    Places next;
    const BatchRun::Step step = [&](PlacesView part,
                                    LockWait wait) -> std::optional<PipelineFailure> {
      if (are_answers && run.answer_room() < 0) {
        run.SetNotRead(part);
        return std::nullopt;
      }
      const int64_t max_bytes =
          are_answers ? std::min(kMaxBytesOfARead, run.answer_room()) : kMaxBytesOfARead;
      std::vector<Statement> lock =
          WithLockWait(wait, Query::kLock, RowsParams(keys, part, max_bytes));
      lock.insert(lock.begin(), {Query::kTransactionBegin, {}});
      lock.push_back({Query::kClockRead, {}});
      const absl::Duration asked_at = DatabaseClock::AskedAt();
      const PipelineOutcome locked = run.session().Run(lock, AnswersFrom::kNothing);
      if (locked.failure.has_value()) return locked.failure;
      Places held_back;
      auto rows = FindRows(run, keys, part, locked.results, asked_at, &held_back);
      if (!rows.ok()) {
        run.session().Continue({{Query::kTransactionRollback, {}}}, AnswersFrom::kNothing);
        return BrokenAnswer(rows.status().message());
      }
      if (auto failure = WriteLocked(run, *rows, decide)) return failure;
      for (const FoundRow& row : *rows) {
        if (are_answers) run.TakeAnswerRoom(row.bytes);
        if (!run.HasFault(row.place)) done(row);
      }
      next.insert(next.end(), held_back.begin(), held_back.end());
      return std::nullopt;
    };
    if (auto failure = run.Do(left, step, lock_wait)) return failure;
    left = std::move(next);
  }
  return std::nullopt;
}

}  // namespace idempotency
