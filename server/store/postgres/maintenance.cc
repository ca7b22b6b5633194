#include "server/store/postgres/maintenance.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

absl::Status AsFault(const PipelineFailure& failure, Query query) {
  // The others commit in a pipeline of their own.
  const bool commits = query == Query::kPurgeStep;
  const std::string message = absl::StrCat(QueryName(query), ": ", failure.message);
  if (failure.kind == ErrorKind::kSchema) return MakeFault(Fault::kSchemaIncompatible, message);
  if (failure.kind == ErrorKind::kItem) return MakeFault(Fault::kInternal, message);
  if (failure.effect == Effect::kLost && commits) return MakeFault(Fault::kCommitUnknown, message);
  if (failure.kind == ErrorKind::kLockTimeout) return MakeFault(Fault::kLockTimeout, message);
  return MakeFault(Fault::kStoreUnavailable, message);
}

// The last statement's result. Statements that are gone are prepared anew once; anything else waits
// for the next step.
absl::StatusOr<PgResult> RunAll(Session& session, absl::Span<const Statement> statements,
                                AnswersFrom answers) {
  PipelineOutcome outcome = session.Run(statements, answers);
  if (outcome.failure.has_value() && outcome.failure->kind == ErrorKind::kPrepareAgain) {
    outcome = session.Run(statements, answers);
  }
  if (outcome.failure.has_value()) return AsFault(*outcome.failure, statements.back().query);
  return std::move(outcome.results.back());
}

absl::StatusOr<PgResult> RunOne(Session& session, Query query, Params params, AnswersFrom answers) {
  return RunAll(session, {{query, std::move(params)}}, answers);
}

uint32_t BlockNumber(int64_t block) {
  // The largest is InvalidBlockNumber.
  return static_cast<uint32_t>(
      std::clamp<int64_t>(block, 0, std::numeric_limits<uint32_t>::max() - 1));
}

int64_t Millis(absl::Duration duration) {
  return absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1)));
}

Params RangeParams(BlockRange range) {
  Params params;
  params.AddBlock(BlockNumber(range.first)).AddBlock(BlockNumber(range.last));
  return params;
}

absl::StatusOr<std::vector<SweptRecord>> SweptRecords(const PGresult* result) {
  RETURN_IF_ERROR(CheckShape(
      result, {PgType::kText, PgType::kText, PgType::kTimestamptz, PgType::kInt4, PgType::kInt2}));
  std::vector<SweptRecord> records;
  for (int i = 0; i < PQntuples(result); ++i) {
    RowReader row(result, i);
    SweptRecord& record = records.emplace_back();
    record.key.merchant_id = std::string(row.Bytes());
    record.key.idempotency_key = std::string(row.Bytes());
    record.created_at = row.Timestamp();
    record.attempt_number = row.Int4();
    record.state = static_cast<RecordState>(row.Int2());
    RETURN_IF_ERROR(row.status());
  }
  return records;
}

// Runs a statement that marks or deletes records and returns them. The records are known before the
// commit is sent, and they are returned also when its answer was lost: nothing would find them
// again, and a log line too many is better than none.
absl::StatusOr<std::vector<SweptRecord>> RunAndTell(Session& session, Query query, Params params) {
  ASSIGN_OR_RETURN(const PgResult result,
                   RunAll(session, {{Query::kTransactionBegin, {}}, {query, std::move(params)}},
                          AnswersFrom::kNothing));
  absl::StatusOr<std::vector<SweptRecord>> records = SweptRecords(result.get());
  if (!records.ok() || records->empty()) {
    session.Continue({{Query::kTransactionRollback, {}}}, AnswersFrom::kNothing);
    return records;
  }
  const PipelineOutcome committed =
      session.Continue({{Query::kTransactionCommit, {}}}, AnswersFrom::kItsWrites);
  if (committed.failure.has_value() && committed.failure->effect != Effect::kLost) {
    return AsFault(*committed.failure, query);
  }
  return records;
}

}  // namespace

absl::StatusOr<int64_t> CountBlocks(Session& session) {
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kCountBlocks, Params(), AnswersFrom::kNothing));
  RETURN_IF_ERROR(CheckShape(result.get(), {PgType::kInt8}));
  if (PQntuples(result.get()) != 1) return absl::InternalError("count_blocks: no row");
  RowReader row(result.get(), 0);
  const int64_t blocks = row.Int8();
  RETURN_IF_ERROR(row.status());
  return blocks;
}

absl::StatusOr<std::vector<SweptRecord>> SweepStep(Session& session, const Policy& policy,
                                                   BlockRange range, absl::Duration grace) {
  Params params = RangeParams(range);
  params.AddInt8(Millis(policy.skew_margin + grace));
  return RunAndTell(session, Query::kSweepStep, std::move(params));
}

absl::StatusOr<int64_t> PurgeStep(Session& session, const Policy& policy, BlockRange range) {
  Params params = RangeParams(range);
  params.AddInt8(Millis(policy.skew_margin)).AddInt8(Millis(policy.replay_window));
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kPurgeStep, std::move(params), AnswersFrom::kItsWrites));
  return std::atoll(PQcmdTuples(result.get()));
}

absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(Session& session, const Policy& policy,
                                                            BlockRange range,
                                                            absl::Duration max_age) {
  if (max_age == absl::InfiniteDuration()) return std::vector<SweptRecord>();
  Params params = RangeParams(range);
  params.AddInt8(Millis(policy.skew_margin)).AddInt8(Millis(max_age));
  return RunAndTell(session, Query::kPurgeUnsettledStep, std::move(params));
}

absl::Status CheckDatabase(Session& session) {
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kCheck, Params(), AnswersFrom::kNothing));
  const absl::Status fits = CheckFitness(result.get()).status();
  if (fits.ok()) return fits;
  const Fault fault = absl::IsFailedPrecondition(fits) ? Fault::kSchemaIncompatible
                      : absl::IsUnavailable(fits)      ? Fault::kStoreUnavailable
                                                       : Fault::kInternal;
  return MakeFault(fault, fits.message());
}

}  // namespace idempotency
