#include "server/store/postgres/store_batches.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

Params KeyParams(absl::Span<const LookupItem* const> items, PlacesView places) {
  ArrayParam merchant(PgType::kText, places.size()), key(PgType::kText, places.size());
  for (const size_t place : places) {
    merchant.Bytes(items[place]->key.merchant_id);
    key.Bytes(items[place]->key.idempotency_key);
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key));
  return params;
}

// Rows of wait_probe.sql, one for each of `places`.
absl::Status Understand(const PGresult* rows, PlacesView places,
                        std::vector<ProbeResult>& results) {
  absl::Status status = CheckShape(rows, {PgType::kInt4, PgType::kTimestamptz, PgType::kTimestamptz,
                                          PgType::kInt4, PgType::kInt2, PgType::kTimestamptz});
  constexpr int kReadingColumn = 5;
  if (status.ok() && static_cast<size_t>(PQntuples(rows)) != places.size()) {
    status = absl::InternalError("wait_probe: not one row for each key");
  }
  for (int i = 0; status.ok() && i < PQntuples(rows); ++i) {
    RowReader row(rows, i);
    const auto at = static_cast<size_t>(row.Int4()) - 1;
    if (at >= places.size()) return absl::InternalError("wait_probe: a row out of place");
    ProbeResult& result = results[places[at]];
    result.sign.reset();
    if (!row.IsNull()) {
      RecordSign& sign = result.sign.emplace();
      sign.created_at = row.Timestamp();
      sign.lease_expires_at = row.Timestamp();
      sign.attempt_number = row.Int4();
      sign.state = static_cast<RecordState>(row.Int2());
      status = row.status();
    }
    RowReader reading(rows, i, kReadingColumn);
    result.now = reading.Timestamp();
    if (status.ok()) status = reading.status();
  }
  return status;
}

}  // namespace

std::optional<PipelineFailure> ProbeOnce(BatchRun& run, Batch<LookupItem, ProbeResult>& batch) {
  return run.Do(run.Open(), [&](PlacesView part, LockWait) -> std::optional<PipelineFailure> {
    // Nobody is answered from it, so it needs no barrier.
    const PipelineOutcome outcome = run.session().Run(
        {{Query::kWaitProbe, KeyParams(batch.items, part)}}, AnswersFrom::kNothing);
    if (outcome.failure.has_value()) return outcome.failure;
    const absl::Status status = Understand(outcome.results.back().get(), part, batch.results);
    if (!status.ok()) {
      return PipelineFailure{Effect::kRejected, ErrorKind::kItem, std::string(status.message())};
    }
    for (const size_t place : part) run.MarkAnswered(place);
    return std::nullopt;
  });
}

}  // namespace idempotency
