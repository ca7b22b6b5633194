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
  const bool writes = query != Query::kCheck && query != Query::kCountBlocks;
  const std::string message = absl::StrCat(QueryName(query), ": ", failure.message);
  if (failure.kind == ErrorKind::kSchema) return MakeFault(Fault::kSchemaIncompatible, message);
  if (failure.kind == ErrorKind::kItem) return MakeFault(Fault::kInternal, message);
  if (failure.effect == Effect::kLost && writes) return MakeFault(Fault::kCommitUnknown, message);
  if (failure.kind == ErrorKind::kLockTimeout) return MakeFault(Fault::kLockTimeout, message);
  return MakeFault(Fault::kStoreUnavailable, message);
}

// Statements that are gone are prepared anew once; anything else waits for the next step.
absl::StatusOr<PgResult> RunOne(Session& session, Query query, Params params) {
  const Statement statement{query, std::move(params)};
  PipelineOutcome outcome = session.Run({&statement, 1});
  if (outcome.failure.has_value() && outcome.failure->kind == ErrorKind::kPrepareAgain) {
    outcome = session.Run({&statement, 1});
  }
  if (outcome.failure.has_value()) return AsFault(*outcome.failure, query);
  return std::move(outcome.results[0]);
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

}  // namespace

absl::StatusOr<int64_t> CountBlocks(Session& session) {
  ASSIGN_OR_RETURN(const PgResult result, RunOne(session, Query::kCountBlocks, Params()));
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
  ASSIGN_OR_RETURN(const PgResult result, RunOne(session, Query::kSweepStep, std::move(params)));
  return SweptRecords(result.get());
}

absl::StatusOr<int64_t> PurgeStep(Session& session, const Policy& policy, BlockRange range) {
  Params params = RangeParams(range);
  params.AddInt8(Millis(policy.skew_margin)).AddInt8(Millis(policy.replay_window));
  ASSIGN_OR_RETURN(const PgResult result, RunOne(session, Query::kPurgeStep, std::move(params)));
  return std::atoll(PQcmdTuples(result.get()));
}

absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(Session& session, const Policy& policy,
                                                            BlockRange range,
                                                            absl::Duration max_age) {
  if (max_age == absl::InfiniteDuration()) return std::vector<SweptRecord>();
  Params params = RangeParams(range);
  params.AddInt8(Millis(policy.skew_margin)).AddInt8(Millis(max_age));
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kPurgeUnsettledStep, std::move(params)));
  return SweptRecords(result.get());
}

absl::Status CheckDatabase(Session& session) {
  ASSIGN_OR_RETURN(const PgResult result, RunOne(session, Query::kCheck, Params()));
  const absl::Status fits = CheckSchema(result.get());
  if (fits.ok()) return fits;
  const Fault fault = absl::IsFailedPrecondition(fits) ? Fault::kSchemaIncompatible
                      : absl::IsUnavailable(fits)      ? Fault::kStoreUnavailable
                                                       : Fault::kInternal;
  return MakeFault(fault, fits.message());
}

}  // namespace idempotency
