#include "server/store/postgres/codec.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "idempotency/store/v1/stored.pb.h"
#include "server/base/status_macros.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

namespace stored = ::idempotency::store::v1;

constexpr int kHoldFlag = 1;
constexpr int kUnknownFlag = 2;
constexpr int kSchemeShift = 8;

std::string Text(absl::string_view bytes) { return std::string(bytes); }

template <typename Bytes>
std::string BytesText(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <typename Bytes>
bool CopyBytes(const std::string& from, Bytes& to) {
  if (from.size() != to.size()) return false;
  std::copy(from.begin(), from.end(), to.begin());
  return true;
}

template <typename Message>
bool Parse(absl::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void ToStored(const Outcome& outcome, stored::StoredOutcome& to) {
  to.set_status_code(outcome.status_code);
  for (const Header& header : outcome.headers) {
    stored::StoredHeader& added = *to.add_headers();
    added.set_name(header.name);
    added.set_value(header.value);
  }
  to.set_content_type(outcome.content_type);
  if (outcome.body.has_value()) to.set_body(*outcome.body);
  to.set_response_id(outcome.response_id);
  to.set_body_omitted(outcome.body_omitted);
  if (outcome.body_size.has_value()) to.set_body_size(*outcome.body_size);
  to.set_body_sha256(outcome.body_sha256);
}

Outcome FromStored(const stored::StoredOutcome& from) {
  Outcome outcome;
  outcome.status_code = from.status_code();
  for (const stored::StoredHeader& header : from.headers()) {
    outcome.headers.push_back({header.name(), header.value()});
  }
  outcome.content_type = from.content_type();
  if (from.has_body()) outcome.body = from.body();
  outcome.response_id = from.response_id();
  outcome.body_omitted = from.body_omitted();
  if (from.has_body_size()) outcome.body_size = from.body_size();
  outcome.body_sha256 = from.body_sha256();
  return outcome;
}

void ToStored(const Failure& failure, stored::StoredFailure& to) {
  to.set_disposition(static_cast<int32_t>(failure.disposition));
  to.set_code(failure.code);
  to.set_message(failure.message);
  if (failure.outcome.has_value()) ToStored(*failure.outcome, *to.mutable_outcome());
}

std::optional<Failure> FromStored(const stored::StoredFailure& from) {
  if (from.disposition() < static_cast<int32_t>(Disposition::kNotApplied) ||
      from.disposition() > static_cast<int32_t>(Disposition::kUnknown)) {
    return std::nullopt;
  }
  Failure failure;
  failure.disposition = static_cast<Disposition>(from.disposition());
  failure.code = from.code();
  failure.message = from.message();
  if (from.has_outcome()) failure.outcome = FromStored(from.outcome());
  return failure;
}

bool IsState(int16_t number) {
  return number >= static_cast<int16_t>(RecordState::kInProgress) &&
         number <= static_cast<int16_t>(RecordState::kFailedUnknown);
}

bool HasAnswer(RecordState state) {
  return state != RecordState::kInProgress && state != RecordState::kSwept;
}

}  // namespace

int16_t EncodeFlags(bool hold, bool has_unknown_attempts, int32_t fingerprint_scheme) {
  return static_cast<int16_t>((hold ? kHoldFlag : 0) | (has_unknown_attempts ? kUnknownFlag : 0) |
                              fingerprint_scheme << kSchemeShift);
}

std::string EncodeAnswer(const Answer* answer) {
  if (answer == nullptr) return std::string();
  if (const auto* outcome = std::get_if<Outcome>(answer)) {
    stored::StoredOutcome message;
    ToStored(*outcome, message);
    return message.SerializeAsString();
  }
  stored::StoredFailure message;
  ToStored(std::get<Failure>(*answer), message);
  return message.SerializeAsString();
}

std::string EncodeHistory(const Record& record) {
  stored::StoredHistory message;
  message.set_fencing_token_offset(record.fencing_token - absl::ToUnixMicros(record.created_at));
  if (record.started_at != record.created_at) {
    message.set_started_at_us(absl::ToUnixMicros(record.started_at));
  }
  for (const AttemptHash& attempt : record.earlier_attempts) {
    message.add_earlier_attempts(BytesText(attempt.bytes));
  }
  message.set_unknown_attempts(record.unknown_attempts);
  if (record.previous_attempt.has_value()) {
    const PreviousAttempt& previous = *record.previous_attempt;
    stored::StoredPreviousAttempt& to = *message.mutable_previous_attempt();
    to.set_attempt_number(previous.attempt_number);
    to.set_started_at_us(absl::ToUnixMicros(previous.started_at));
    to.set_lease_expires_at_us(absl::ToUnixMicros(previous.lease_expires_at));
    if (previous.failure.has_value()) ToStored(*previous.failure, *to.mutable_failure());
  }
  if (record.refused_outcome.has_value()) {
    const RefusedOutcome& refused = *record.refused_outcome;
    stored::StoredRefusedOutcome& to = *message.mutable_refused_outcome();
    to.set_status_code(refused.status_code);
    to.set_response_id(refused.response_id);
    to.set_content_sha256(BytesText(refused.content_digest));
    to.set_refused_at_us(absl::ToUnixMicros(refused.refused_at));
    to.set_attempt_number(refused.attempt_number);
  }
  return message.SerializeAsString();
}

std::string EncodeFirstHistory(int64_t token_offset_us) {
  if (token_offset_us == 0) return std::string();
  stored::StoredHistory message;
  message.set_fencing_token_offset(token_offset_us);
  return message.SerializeAsString();
}

std::string EncodeLabels(const Labels& labels) {
  if (labels.empty()) return std::string();
  stored::StoredLabels message;
  for (const auto& [name, value] : labels) (*message.mutable_labels())[name] = value;
  return message.SerializeAsString();
}

absl::string_view BytesOf(const Fingerprint& fingerprint) {
  return absl::string_view(reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size());
}

absl::StatusOr<std::shared_ptr<const Answer>> DecodeAnswer(absl::string_view bytes,
                                                           RecordState state) {
  if (!HasAnswer(state)) {
    if (!bytes.empty()) return absl::InternalError("an unfinished record has an answer");
    return nullptr;
  }
  if (state == RecordState::kCompleted) {
    stored::StoredOutcome message;
    if (!Parse(bytes, message)) return absl::InternalError("the outcome cannot be parsed");
    return std::make_shared<const Answer>(FromStored(message));
  }
  stored::StoredFailure message;
  if (!Parse(bytes, message)) return absl::InternalError("the failure cannot be parsed");
  std::optional<Failure> failure = FromStored(message);
  if (!failure.has_value()) return absl::InternalError("the failure is of no known kind");
  Answer answer = *std::move(failure);
  if (StateAfter(answer) != state) return absl::InternalError("the failure is another state's");
  return std::make_shared<const Answer>(std::move(answer));
}

absl::Status DecodeHistory(absl::string_view bytes, Record& record) {
  stored::StoredHistory message;
  if (!Parse(bytes, message)) return absl::InternalError("the history cannot be parsed");
  record.started_at = message.started_at_us() == 0 ? record.created_at
                                                   : absl::FromUnixMicros(message.started_at_us());
  record.fencing_token = absl::ToUnixMicros(record.created_at) + message.fencing_token_offset();
  for (const std::string& earlier : message.earlier_attempts()) {
    if (!CopyBytes(earlier, record.earlier_attempts.emplace_back().bytes)) {
      return absl::InternalError("an earlier attempt is not of 16 bytes");
    }
  }
  record.unknown_attempts = message.unknown_attempts();
  if (message.has_previous_attempt()) {
    const stored::StoredPreviousAttempt& from = message.previous_attempt();
    PreviousAttempt& previous = record.previous_attempt.emplace();
    previous.attempt_number = from.attempt_number();
    previous.started_at = absl::FromUnixMicros(from.started_at_us());
    previous.lease_expires_at = absl::FromUnixMicros(from.lease_expires_at_us());
    if (from.has_failure()) {
      previous.failure = FromStored(from.failure());
      if (!previous.failure.has_value()) {
        return absl::InternalError("the previous attempt's failure is of no known kind");
      }
    }
  }
  if (message.has_refused_outcome()) {
    const stored::StoredRefusedOutcome& from = message.refused_outcome();
    RefusedOutcome& refused = record.refused_outcome.emplace();
    refused.status_code = from.status_code();
    refused.response_id = from.response_id();
    refused.refused_at = absl::FromUnixMicros(from.refused_at_us());
    refused.attempt_number = from.attempt_number();
    if (!CopyBytes(from.content_sha256(), refused.content_digest)) {
      return absl::InternalError("the refused outcome's digest is not of 32 bytes");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Labels> DecodeLabels(absl::string_view bytes) {
  stored::StoredLabels message;
  if (!Parse(bytes, message)) return absl::InternalError("the labels cannot be parsed");
  return Labels(message.labels().begin(), message.labels().end());
}

absl::StatusOr<Record> DecodeRecord(const RecordKey& key, RowReader& row) {
  Record record;
  record.key = key;
  record.created_at = row.Timestamp();
  record.lease_expires_at = row.Timestamp();
  record.ttl = absl::Seconds(row.Int4());
  record.lease_duration = absl::Milliseconds(row.Int4());
  record.attempt_number = row.Int4();
  record.attempt.bytes = row.Uuid();
  const int flags = row.Int2();
  const int16_t state = row.Int2();
  const absl::Time finished_at = row.Timestamp();
  const absl::string_view outcome = row.Bytes();
  const absl::string_view history = row.Bytes();
  const absl::string_view labels = row.Bytes();
  const absl::string_view fingerprint = row.Bytes();
  record.operation = Text(row.Bytes());
  RETURN_IF_ERROR(row.status());
  if (!IsState(state)) return absl::InternalError("a state of no known kind");
  record.state = static_cast<RecordState>(state);
  record.hold = (flags & kHoldFlag) != 0;
  record.fingerprint_scheme = flags >> kSchemeShift;
  if (finished_at != absl::InfinitePast()) record.finished_at = finished_at;
  if (!CopyBytes(Text(fingerprint), record.fingerprint)) {
    return absl::InternalError("a fingerprint that is not of 32 bytes");
  }
  ASSIGN_OR_RETURN(record.answer, DecodeAnswer(outcome, record.state));
  RETURN_IF_ERROR(DecodeHistory(history, record));
  ASSIGN_OR_RETURN(record.labels, DecodeLabels(labels));
  if ((record.unknown_attempts > 0) != ((flags & kUnknownFlag) != 0)) {
    return absl::InternalError("the flag and the count of unknown attempts differ");
  }
  return record;
}

Params EncodeRows(absl::Span<const RowToWrite> rows) {
  const size_t n = rows.size();
  ArrayParam merchant(PgType::kText, n), key(PgType::kText, n), created(PgType::kTimestamptz, n),
      lease_end(PgType::kTimestamptz, n), ttl(PgType::kInt4, n), lease(PgType::kInt4, n),
      number(PgType::kInt4, n), attempt(PgType::kUuid, n), flags(PgType::kInt2, n),
      state(PgType::kInt2, n), finished(PgType::kTimestamptz, n), outcome(PgType::kBytea, n),
      history(PgType::kBytea, n), labels(PgType::kBytea, n), fingerprint(PgType::kBytea, n),
      operation(PgType::kText, n);
  for (const RowToWrite& row : rows) {
    const Record& record = *row.record;
    merchant.Bytes(record.key.merchant_id);
    key.Bytes(record.key.idempotency_key);
    created.Timestamp(record.created_at);
    lease_end.Timestamp(record.lease_expires_at);
    ttl.Int4(static_cast<int32_t>(absl::ToInt64Seconds(record.ttl)));
    lease.Int4(static_cast<int32_t>(absl::ToInt64Milliseconds(record.lease_duration)));
    number.Int4(record.attempt_number);
    attempt.Uuid(record.attempt.bytes);
    flags.Int2(EncodeFlags(record.hold, record.unknown_attempts > 0, record.fingerprint_scheme));
    state.Int2(static_cast<int16_t>(record.state));
    finished.Timestamp(record.finished_at.value_or(absl::InfinitePast()));
    if (row.keeps_answer) {
      outcome.Null();
    } else {
      outcome.Bytes(EncodeAnswer(record.answer.get()));
    }
    history.Bytes(EncodeHistory(record));
    labels.Bytes(EncodeLabels(record.labels));
    fingerprint.Bytes(BytesOf(record.fingerprint));
    operation.Bytes(record.operation);
  }
  Params params;
  params.Add(std::move(merchant)).Add(std::move(key)).Add(std::move(created));
  params.Add(std::move(lease_end)).Add(std::move(ttl)).Add(std::move(lease));
  params.Add(std::move(number)).Add(std::move(attempt)).Add(std::move(flags));
  params.Add(std::move(state)).Add(std::move(finished)).Add(std::move(outcome));
  params.Add(std::move(history)).Add(std::move(labels)).Add(std::move(fingerprint));
  params.Add(std::move(operation));
  return params;
}

}  // namespace idempotency
