#include "server/store/postgres/maintenance.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status_macros.h"
#include "server/record/fault.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

absl::Status AsFault(const PipelineFailure& failure, Query query) {
  // The others commit in a pipeline of their own, or do no harm twice.
  const bool commits = query == Query::kPurgeStep;
  const std::string message = absl::StrCat(QueryName(query), ": ", failure.message);
  if (failure.kind == ErrorKind::kSchema) return MakeFault(Fault::kSchemaIncompatible, message);
  if (failure.kind == ErrorKind::kItem) return MakeFault(Fault::kInternal, message);
  if (failure.effect == Effect::kLost && commits) return MakeFault(Fault::kCommitUnknown, message);
  if (failure.kind == ErrorKind::kLockTimeout) return MakeFault(Fault::kLockTimeout, message);
  return MakeFault(Fault::kStoreUnavailable, message);
}

// Statements that are gone are prepared anew once; anything else waits for the next step.
PipelineOutcome RunPrepared(Session& session, absl::Span<const Statement> statements,
                            AnswersFrom answers) {
  PipelineOutcome outcome = session.Run(statements, answers);
  if (outcome.failure.has_value() && outcome.failure->kind == ErrorKind::kPrepareAgain) {
    outcome = session.Run(statements, answers);
  }
  return outcome;
}

// The last statement's result.
absl::StatusOr<PgResult> RunAll(Session& session, absl::Span<const Statement> statements,
                                AnswersFrom answers) {
  PipelineOutcome outcome = RunPrepared(session, statements, answers);
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

void RollBack(Session& session) {
  session.Continue({{Query::kTransactionRollback, {}}}, AnswersFrom::kNothing);
}

// Opens the transaction of a step, and reads the clock in it. Absent, and the transaction is rolled
// back, when the clock has just jumped: no lease is over and nothing expires then. The statement
// that follows holds its own readings against `guard`, so that a jump in between stops it as well.
struct StepClock {
  ClockGuard guard;
  Reading reading;
};
absl::StatusOr<std::optional<StepClock>> BeginStep(Session& session, DatabaseClock& clock) {
  const absl::Duration asked_at = DatabaseClock::AskedAt();
  ASSIGN_OR_RETURN(const PgResult result,
                   RunAll(session, {{Query::kTransactionBegin, {}}, {Query::kClockRead, {}}},
                          AnswersFrom::kNothing));
  const absl::StatusOr<ClockState> state = clock.Understand(result.get(), asked_at);
  if (!state.ok()) {
    RollBack(session);
    return MakeFault(Fault::kInternal, state.status().message());
  }
  StepClock step = {state->guard, clock.Judge(*state)};
  if (step.reading.last_jump_at == step.reading.now) {
    RollBack(session);
    return std::nullopt;
  }
  return step;
}

void AddStepClock(const StepClock& step, const DatabaseClock& clock, Params& params) {
  params.AddTimestamp(step.guard.reading);
  params.AddInt8(Millis(LimitsOf(clock.policy()).longest_gap));
}

// Runs a statement that marks or deletes records and returns them, in the step's transaction. The
// records are known before the commit is sent, and they are returned also when its answer was lost:
// nothing would find them again, and a log line too many is better than none.
absl::StatusOr<std::vector<SweptRecord>> RunAndTell(Session& session, Query query, Params params) {
  const PipelineOutcome outcome =
      session.Continue({{query, std::move(params)}}, AnswersFrom::kNothing);
  if (outcome.failure.has_value()) return AsFault(*outcome.failure, query);
  absl::StatusOr<std::vector<SweptRecord>> records = SweptRecords(outcome.results.back().get());
  if (!records.ok() || records->empty()) {
    RollBack(session);
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

absl::StatusOr<std::vector<SweptRecord>> SweepStep(Session& session, DatabaseClock& clock,
                                                   BlockRange range, absl::Duration grace) {
  ASSIGN_OR_RETURN(const std::optional<StepClock> step, BeginStep(session, clock));
  if (!step.has_value()) return std::vector<SweptRecord>();
  Params params = RangeParams(range);
  params.AddInt8(Millis(clock.policy().skew_margin + grace));
  params.AddTimestamp(step->reading.last_jump_at);
  AddStepClock(*step, clock, params);
  return RunAndTell(session, Query::kSweepStep, std::move(params));
}

absl::StatusOr<Survey> SurveyStep(Session& session, DatabaseClock& clock, BlockRange range) {
  ASSIGN_OR_RETURN(const ClockState state, ReadClock(session, clock));
  const StepClock step = {state.guard, clock.Judge(state)};
  Params params = RangeParams(range);
  params.AddInt8(Millis(clock.policy().skew_margin)).AddInt8(Millis(clock.policy().replay_window));
  params.AddTimestamp(step.reading.last_jump_at);
  AddStepClock(step, clock, params);
  params.AddBool(IsExpiryPaused(step.reading, clock.policy()));
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kSurveyStep, std::move(params), AnswersFrom::kNothing));
  RETURN_IF_ERROR(CheckShape(
      result.get(), {PgType::kInt8, PgType::kInt8, PgType::kInt8, PgType::kInt8, PgType::kInt8}));
  if (PQntuples(result.get()) != 1) return absl::InternalError("survey_step: no row");
  RowReader row(result.get(), 0);
  Survey survey;
  survey.in_progress = row.Int8();
  survey.lease_over = row.Int8();
  survey.abandoned = row.Int8();
  survey.expired = row.Int8();
  survey.oldest_in_progress = absl::Microseconds(row.Int8());
  RETURN_IF_ERROR(row.status());
  return survey;
}

absl::StatusOr<int64_t> PurgeStep(Session& session, DatabaseClock& clock, BlockRange range) {
  ASSIGN_OR_RETURN(const std::optional<StepClock> step, BeginStep(session, clock));
  if (!step.has_value()) return 0;
  if (IsExpiryPaused(step->reading, clock.policy())) {
    RollBack(session);
    return 0;
  }
  Params params = RangeParams(range);
  params.AddInt8(Millis(clock.policy().skew_margin)).AddInt8(Millis(clock.policy().replay_window));
  AddStepClock(*step, clock, params);
  const PipelineOutcome outcome =
      session.Continue({{Query::kPurgeStep, std::move(params)}, {Query::kTransactionCommit, {}}},
                       AnswersFrom::kItsWrites);
  if (outcome.failure.has_value()) return AsFault(*outcome.failure, Query::kPurgeStep);
  return std::atoll(PQcmdTuples(outcome.results.front().get()));
}

absl::StatusOr<std::vector<SweptRecord>> PurgeUnsettledStep(Session& session, DatabaseClock& clock,
                                                            BlockRange range,
                                                            absl::Duration max_age) {
  if (max_age == absl::InfiniteDuration()) return std::vector<SweptRecord>();
  ASSIGN_OR_RETURN(const std::optional<StepClock> step, BeginStep(session, clock));
  if (!step.has_value()) return std::vector<SweptRecord>();
  if (IsExpiryPaused(step->reading, clock.policy())) {
    RollBack(session);
    return std::vector<SweptRecord>();
  }
  Params params = RangeParams(range);
  params.AddInt8(Millis(clock.policy().skew_margin)).AddInt8(Millis(max_age));
  params.AddTimestamp(step->reading.last_jump_at);
  AddStepClock(*step, clock, params);
  return RunAndTell(session, Query::kPurgeUnsettledStep, std::move(params));
}

absl::StatusOr<ClockState> ReadClock(Session& session, DatabaseClock& clock) {
  const absl::Duration asked_at = DatabaseClock::AskedAt();
  ASSIGN_OR_RETURN(const PgResult result,
                   RunOne(session, Query::kClockRead, Params(), AnswersFrom::kNothing));
  return clock.Understand(result.get(), asked_at);
}

absl::StatusOr<ClockState> RefreshClock(Session& session, DatabaseClock& clock, bool saw_drift) {
  const absl::Duration asked_at = DatabaseClock::AskedAt();
  Params params;
  params.AddBool(saw_drift).AddInt8(Millis(LimitsOf(clock.policy()).longest_gap));
  ASSIGN_OR_RETURN(const PgResult result, RunOne(session, Query::kClockRefresh, std::move(params),
                                                 AnswersFrom::kItsWrites));
  return clock.Understand(result.get(), asked_at, /*refreshed=*/true);
}

absl::Status CheckDatabase(Session& session) {
  const PipelineOutcome outcome =
      RunPrepared(session, {{Query::kCheck, {}}}, AnswersFrom::kNothing);
  if (outcome.failure.has_value()) {
    const PipelineFailure& failure = *outcome.failure;
    if (failure.kind == ErrorKind::kSchema) {
      return MakeFault(Fault::kSchemaIncompatible,
                       !failure.unfit.empty()
                           ? failure.unfit
                           : absl::StrFormat("the database lacks parts of this service's schema; "
                                             "this server works with versions %d to %d",
                                             kOldestSchema, kNewestSchema));
    }
    if (!failure.unfit.empty()) return MakeFault(Fault::kNotDurable, failure.unfit);
    return AsFault(failure, Query::kCheck);
  }
  const absl::Status fits =
      CheckFitness(outcome.results.back().get(), session.connection().mark()).status();
  if (fits.ok()) return fits;
  const Fault fault = absl::IsFailedPrecondition(fits) ? Fault::kSchemaIncompatible
                      : absl::IsDataLoss(fits)         ? Fault::kNotDurable
                      : absl::IsUnavailable(fits)      ? Fault::kStoreUnavailable
                                                       : Fault::kInternal;
  return MakeFault(fault, fits.message());
}

}  // namespace idempotency
