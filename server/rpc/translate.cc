#include "server/rpc/translate.h"

#include <string>
#include <variant>

#include "server/base/check.h"
#include "server/record/digest.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

// How much of an outcome's body an answer holds.
enum class BodyView {
  kAsRecorded,   // a replay: the same bytes, nothing added
  kWithDigest,   // Lookup with include_outcome: the bytes, their size and digest
  kDigestAlone,  // Lookup: their size and digest
};

v1::LeaseExpiryAction LeaseExpiryActionOf(const Record& record) {
  return record.hold ? v1::LEASE_EXPIRY_ACTION_HOLD : v1::LEASE_EXPIRY_ACTION_TAKE_OVER;
}

v1::FailureDisposition DispositionOf(Disposition disposition) {
  switch (disposition) {
    case Disposition::kNotApplied:
      return v1::FAILURE_DISPOSITION_NOT_APPLIED;
    case Disposition::kFinal:
      return v1::FAILURE_DISPOSITION_FINAL;
    case Disposition::kUnknown:
      return v1::FAILURE_DISPOSITION_UNKNOWN;
  }
  return v1::FAILURE_DISPOSITION_UNSPECIFIED;
}

void ToOutcome(const Outcome& outcome, BodyView view, v1::Outcome* message) {
  message->set_status_code(outcome.status_code);
  for (const Header& header : outcome.headers) {
    v1::Header* added = message->add_headers();
    added->set_name(header.name);
    added->set_value(header.value);
  }
  message->set_content_type(outcome.content_type);
  message->set_response_id(outcome.response_id);
  if (outcome.body_omitted) {
    message->set_body_omitted(true);
    if (outcome.body_size.has_value()) message->set_body_size(*outcome.body_size);
    message->set_body_sha256(outcome.body_sha256);
    return;
  }
  if (!outcome.body.has_value()) return;
  if (view != BodyView::kDigestAlone) message->set_body(*outcome.body);
  if (view == BodyView::kAsRecorded) return;
  const Sha256Digest digest = Sha256().Bytes(*outcome.body).Finish();
  message->set_body_size(static_cast<int64_t>(outcome.body->size()));
  message->set_body_sha256(digest.data(), digest.size());
}

void ToFailure(const Failure& failure, BodyView view, v1::Failure* message) {
  message->set_disposition(DispositionOf(failure.disposition));
  message->set_code(failure.code);
  message->set_message(failure.message);
  if (failure.outcome.has_value()) ToOutcome(*failure.outcome, view, message->mutable_outcome());
}

void ToPreviousAttempt(const PreviousAttempt& previous, BodyView view,
                       v1::PreviousAttempt* message) {
  message->set_attempt_number(previous.attempt_number);
  *message->mutable_start_time() = ToTimestamp(previous.started_at);
  *message->mutable_lease_expire_time() = ToTimestamp(previous.lease_expires_at);
  if (previous.failure.has_value()) ToFailure(*previous.failure, view, message->mutable_failure());
}

void ToStarted(const BeginResult& result, const Uuid& record_id, absl::string_view attempt_id,
               v1::Started* started) {
  const Record& record = *result.record;
  started->set_attempt_id(std::string(attempt_id));
  started->set_attempt_number(record.attempt_number);
  started->set_fencing_token(record.fencing_token);
  *started->mutable_lease_remaining() = ToProtoDuration(LeaseRemaining(record, result.reading.now));
  *started->mutable_lease_expire_time() = ToTimestamp(record.lease_expires_at);
  started->set_downstream_key(UuidText(DownstreamKeyOf(record_id)));
  started->set_unknown_attempts(record.unknown_attempts);
  if (record.previous_attempt.has_value()) {
    ToPreviousAttempt(*record.previous_attempt, BodyView::kAsRecorded,
                      started->mutable_previous_attempt());
  }
  started->set_repeated(result.repeated);
}

void ToReplay(const Record& record, v1::Replay* replay) {
  IDEM_CHECK(record.answer != nullptr && record.finished_at.has_value())
      << "a final record without its answer";
  if (const auto* outcome = std::get_if<Outcome>(record.answer.get())) {
    ToOutcome(*outcome, BodyView::kAsRecorded, replay->mutable_outcome());
  } else {
    ToFailure(std::get<Failure>(*record.answer), BodyView::kAsRecorded, replay->mutable_failure());
  }
  replay->set_attempt_number(record.attempt_number);
  *replay->mutable_start_time() = ToTimestamp(record.started_at);
  *replay->mutable_finish_time() = ToTimestamp(*record.finished_at);
}

void ToInProgress(const BeginResult& result, const Policy& policy, v1::InProgress* in_progress) {
  const Record& record = *result.record;
  *in_progress->mutable_retry_after() = ToProtoDuration(RetryAfter(record, result.reading, policy));
  *in_progress->mutable_lease_remaining() =
      ToProtoDuration(LeaseRemaining(record, result.reading.now));
  in_progress->set_attempt_number(record.attempt_number);
  *in_progress->mutable_start_time() = ToTimestamp(record.started_at);
}

// CompleteResponse and FailResponse have the same fields.
template <typename Response>
void ToFinishResponse(const OwnerResult& result, Response* response) {
  IDEM_CHECK(result.record != nullptr && result.record->finished_at.has_value())
      << "an answer was recorded without its time";
  response->set_record_id(RecordIdText(*result.record));
  response->set_already_recorded(result.verdict == OwnerVerdict::kAlreadyRecorded);
  *response->mutable_finish_time() = ToTimestamp(*result.record->finished_at);
}

}  // namespace

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp message;
  const int64_t micros = absl::ToUnixMicros(time);
  int64_t seconds = micros / 1'000'000;
  int64_t rest = micros % 1'000'000;
  if (rest < 0) {
    // A Timestamp's nanos count forward, also before 1970.
    rest += 1'000'000;
    --seconds;
  }
  message.set_seconds(seconds);
  message.set_nanos(static_cast<int32_t>(rest * 1'000));
  return message;
}

google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  google::protobuf::Duration message;
  absl::Duration rest;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return message;
}

v1::RecordState VisibleState(const Record& record, const Reading& reading, const Policy& policy) {
  if (IsAbandoned(record, reading, policy)) return v1::RECORD_STATE_ABANDONED;
  switch (record.state) {
    case RecordState::kCompleted:
      return v1::RECORD_STATE_COMPLETED;
    case RecordState::kFailedFinal:
      return v1::RECORD_STATE_FAILED;
    case RecordState::kReleased:
      return v1::RECORD_STATE_RELEASED;
    case RecordState::kInProgress:
    case RecordState::kSwept:
    case RecordState::kFailedUnknown:
      return v1::RECORD_STATE_IN_PROGRESS;
  }
  return v1::RECORD_STATE_UNSPECIFIED;
}

void ToBeginResponse(const BeginResult& result, absl::string_view attempt_id, const Policy& policy,
                     v1::BeginResponse* response) {
  const Record& record = *result.record;
  const Uuid record_id = RecordIdOf(record.key, record.created_at);
  response->set_record_id(UuidText(record_id));
  response->set_on_lease_expiry(LeaseExpiryActionOf(record));
  switch (result.verdict) {
    case BeginVerdict::kStarted:
      ToStarted(result, record_id, attempt_id, response->mutable_started());
      return;
    case BeginVerdict::kReplay:
      ToReplay(record, response->mutable_replay());
      return;
    case BeginVerdict::kInProgress:
      ToInProgress(result, policy, response->mutable_in_progress());
      return;
    case BeginVerdict::kKeyReused:
    case BeginVerdict::kLeaseLost:
    case BeginVerdict::kNeedsResolution:
      break;
  }
  IDEM_CHECK(false) << "a refusal is no response";
}

void ToCompleteResponse(const OwnerResult& result, v1::CompleteResponse* response) {
  ToFinishResponse(result, response);
}

void ToFailResponse(const OwnerResult& result, v1::FailResponse* response) {
  ToFinishResponse(result, response);
}

void ToRenewResponse(const OwnerResult& result, v1::RenewResponse* response) {
  IDEM_CHECK(result.record != nullptr) << "a lease was renewed without its record";
  const Record& record = *result.record;
  response->set_record_id(RecordIdText(record));
  *response->mutable_lease_remaining() =
      ToProtoDuration(LeaseRemaining(record, result.reading.now));
  *response->mutable_lease_expire_time() = ToTimestamp(record.lease_expires_at);
}

void ToLookupResponse(const LookupResult& result, bool include_outcome, const Policy& policy,
                      v1::LookupResponse* response) {
  IDEM_CHECK(result.record != nullptr) << "no record is a refusal";
  const Record& record = *result.record;
  const BodyView view = include_outcome ? BodyView::kWithDigest : BodyView::kDigestAlone;
  const Uuid record_id = RecordIdOf(record.key, record.created_at);
  response->set_record_id(UuidText(record_id));
  response->set_operation(record.operation);
  response->set_state(VisibleState(record, result.reading, policy));
  response->set_expired(IsExpired(record, result.reading, policy));
  *response->mutable_create_time() = ToTimestamp(record.created_at);
  *response->mutable_start_time() = ToTimestamp(record.started_at);
  if (record.finished_at.has_value()) {
    *response->mutable_finish_time() = ToTimestamp(*record.finished_at);
  }
  if (IsSettled(record)) {
    *response->mutable_expire_time() = ToTimestamp(ExpiresAt(record, policy));
  }
  *response->mutable_lease_expire_time() = ToTimestamp(record.lease_expires_at);
  if (response->state() == v1::RECORD_STATE_IN_PROGRESS) {
    *response->mutable_lease_remaining() =
        ToProtoDuration(LeaseRemaining(record, result.reading.now));
  }
  response->set_on_lease_expiry(LeaseExpiryActionOf(record));
  response->set_attempt_number(record.attempt_number);
  response->set_unknown_attempts(record.unknown_attempts);
  response->set_fencing_token(record.fencing_token);
  response->set_downstream_key(UuidText(DownstreamKeyOf(record_id)));
  response->set_fingerprint_scheme(record.fingerprint_scheme);
  for (const auto& [name, value] : record.labels) (*response->mutable_labels())[name] = value;
  if (record.answer != nullptr) {
    if (const auto* outcome = std::get_if<Outcome>(record.answer.get())) {
      ToOutcome(*outcome, view, response->mutable_outcome());
    } else {
      ToFailure(std::get<Failure>(*record.answer), view, response->mutable_failure());
    }
  }
  if (record.previous_attempt.has_value()) {
    ToPreviousAttempt(*record.previous_attempt, view, response->mutable_previous_attempt());
  }
  if (record.refused_outcome.has_value()) {
    const RefusedOutcome& refused = *record.refused_outcome;
    v1::RefusedOutcome* message = response->mutable_refused_outcome();
    message->set_status_code(refused.status_code);
    message->set_response_id(refused.response_id);
    message->set_content_sha256(refused.content_digest.data(), refused.content_digest.size());
    *message->mutable_refuse_time() = ToTimestamp(refused.refused_at);
    message->set_attempt_number(refused.attempt_number);
  }
}

}  // namespace idempotency
