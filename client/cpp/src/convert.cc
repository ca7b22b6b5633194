#include "client/cpp/src/convert.h"

#include <algorithm>
#include <cstdint>

#include "client/cpp/src/sha256.h"

namespace idempotency::client {
namespace {

// 250 years: fits nanoseconds in 64 bits, whatever a broken server sends.
constexpr int64_t kMostSeconds = int64_t{250} * 366 * 24 * 3600;

FailureDisposition DispositionOf(v1::FailureDisposition disposition) {
  switch (disposition) {
    case v1::FAILURE_DISPOSITION_NOT_APPLIED:
      return FailureDisposition::kNotApplied;
    case v1::FAILURE_DISPOSITION_FINAL:
      return FailureDisposition::kFinal;
    default:
      return FailureDisposition::kUnknown;
  }
}

v1::FailureDisposition ProtoOf(FailureDisposition disposition) {
  switch (disposition) {
    case FailureDisposition::kNotApplied:
      return v1::FAILURE_DISPOSITION_NOT_APPLIED;
    case FailureDisposition::kFinal:
      return v1::FAILURE_DISPOSITION_FINAL;
    case FailureDisposition::kUnknown:
      break;
  }
  return v1::FAILURE_DISPOSITION_UNKNOWN;
}

PreviousAttempt PreviousAttemptOf(const v1::PreviousAttempt& message) {
  PreviousAttempt previous;
  previous.attempt_number = message.attempt_number();
  previous.start_time = FromProto(message.start_time());
  previous.lease_expire_time = FromProto(message.lease_expire_time());
  if (message.has_failure()) previous.failure = FromProto(message.failure());
  return previous;
}

RecordState StateOf(v1::RecordState state) {
  switch (state) {
    case v1::RECORD_STATE_COMPLETED:
      return RecordState::kCompleted;
    case v1::RECORD_STATE_FAILED:
      return RecordState::kFailed;
    case v1::RECORD_STATE_RELEASED:
      return RecordState::kReleased;
    case v1::RECORD_STATE_ABANDONED:
      return RecordState::kAbandoned;
    default:
      return RecordState::kInProgress;
  }
}

}  // namespace

void ToProto(std::chrono::milliseconds span, google::protobuf::Duration* message) {
  message->set_seconds(span.count() / 1000);
  message->set_nanos(static_cast<int32_t>(span.count() % 1000 * 1'000'000));
}

void ToProto(const Outcome& outcome, v1::Outcome* message) {
  message->set_status_code(outcome.status_code);
  for (const Header& header : outcome.headers) {
    v1::Header* const added = message->add_headers();
    added->set_name(header.name);
    added->set_value(header.value);
  }
  message->set_content_type(outcome.content_type);
  if (outcome.body.has_value()) message->set_body(*outcome.body);
  message->set_response_id(outcome.response_id);
  message->set_body_omitted(outcome.body_omitted);
  // An outcome that came from a Lookup has both beside its body; recorded they are refused there.
  if (outcome.body_omitted) {
    if (outcome.body_size.has_value()) message->set_body_size(*outcome.body_size);
    message->set_body_sha256(outcome.body_sha256);
  }
}

void ToProto(const Failure& failure, v1::Failure* message) {
  message->set_disposition(ProtoOf(failure.disposition));
  message->set_code(failure.code);
  message->set_message(failure.message);
  if (failure.outcome.has_value()) ToProto(*failure.outcome, message->mutable_outcome());
}

std::optional<std::chrono::seconds> TtlOf(const Key& key, const RunOptions& options) {
  return options.ttl.has_value() ? options.ttl : key.ttl;
}

v1::BeginRequest BeginRequestOf(const Key& key, const Request& request,
                                OnLeaseExpiry on_lease_expiry, const RunOptions& options,
                                const std::string& attempt_id) {
  v1::BeginRequest begin;
  begin.set_merchant_id(key.merchant_id);
  begin.set_idempotency_key(key.idempotency_key);
  begin.set_operation(request.operation);
  begin.set_attempt_id(attempt_id);
  if (const auto* payload = std::get_if<Payload>(&request.content)) {
    begin.mutable_payload()->set_data(payload->data);
    begin.mutable_payload()->set_content_type(payload->content_type);
  } else {
    const auto& fingerprint = std::get<Fingerprint>(request.content);
    begin.set_fingerprint(fingerprint.sha256);
    begin.set_fingerprint_scheme(fingerprint.scheme);
  }
  if (const auto ttl = TtlOf(key, options)) {
    begin.mutable_ttl()->set_seconds(ttl->count());
  }
  if (options.lease_duration.has_value()) {
    ToProto(*options.lease_duration, begin.mutable_lease_duration());
  }
  begin.set_on_lease_expiry(on_lease_expiry == OnLeaseExpiry::kHold
                                ? v1::LEASE_EXPIRY_ACTION_HOLD
                                : v1::LEASE_EXPIRY_ACTION_TAKE_OVER);
  for (const auto& [name, value] : options.labels) (*begin.mutable_labels())[name] = value;
  return begin;
}

bool OmitBody(v1::Outcome* outcome) {
  if (!outcome->has_body()) return false;
  outcome->set_body_size(static_cast<int64_t>(outcome->body().size()));
  outcome->set_body_sha256(Sha256(outcome->body()));
  outcome->set_body_omitted(true);
  outcome->clear_body();
  return true;
}

std::chrono::milliseconds FromProto(const google::protobuf::Duration& message) {
  return std::chrono::seconds(std::clamp(message.seconds(), -kMostSeconds, kMostSeconds)) +
         std::chrono::milliseconds(message.nanos() / 1'000'000);
}

std::chrono::system_clock::time_point FromProto(const google::protobuf::Timestamp& message) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(std::clamp(message.seconds(), -kMostSeconds, kMostSeconds)) +
          std::chrono::nanoseconds(message.nanos())));
}

Outcome FromProto(const v1::Outcome& message) {
  Outcome outcome;
  outcome.status_code = message.status_code();
  for (const v1::Header& header : message.headers()) {
    outcome.headers.push_back({header.name(), header.value()});
  }
  outcome.content_type = message.content_type();
  if (message.has_body()) outcome.body = message.body();
  outcome.response_id = message.response_id();
  outcome.body_omitted = message.body_omitted();
  if (message.has_body_size()) outcome.body_size = message.body_size();
  outcome.body_sha256 = message.body_sha256();
  return outcome;
}

Failure FromProto(const v1::Failure& message) {
  Failure failure;
  failure.disposition = DispositionOf(message.disposition());
  failure.code = message.code();
  failure.message = message.message();
  if (message.has_outcome()) failure.outcome = FromProto(message.outcome());
  return failure;
}

OnLeaseExpiry FromProto(v1::LeaseExpiryAction action) {
  // One that is newer than this client may be stricter than what it knows: the strictest of those.
  return action == v1::LEASE_EXPIRY_ACTION_TAKE_OVER ? OnLeaseExpiry::kTakeOver
                                                     : OnLeaseExpiry::kHold;
}

Attempt AttemptOf(const v1::BeginResponse& response) {
  const v1::Started& started = response.started();
  Attempt attempt;
  attempt.record_id = response.record_id();
  attempt.attempt_number = started.attempt_number();
  attempt.fencing_token = started.fencing_token();
  attempt.downstream_key = started.downstream_key();
  attempt.unknown_attempts = started.unknown_attempts();
  if (started.has_previous_attempt()) {
    attempt.previous_attempt = PreviousAttemptOf(started.previous_attempt());
  }
  attempt.repeated = started.repeated();
  attempt.on_lease_expiry = FromProto(response.on_lease_expiry());
  return attempt;
}

std::optional<Replayed> ReplayedOf(const v1::BeginResponse& response) {
  const v1::Replay& replay = response.replay();
  Replayed replayed;
  if (replay.has_outcome()) {
    replayed.answer = FromProto(replay.outcome());
  } else if (replay.has_failure()) {
    replayed.answer = FromProto(replay.failure());
  } else {
    return std::nullopt;
  }
  replayed.record_id = response.record_id();
  replayed.attempt_number = replay.attempt_number();
  replayed.start_time = FromProto(replay.start_time());
  replayed.finish_time = FromProto(replay.finish_time());
  return replayed;
}

InProgress InProgressOf(const v1::BeginResponse& response) {
  const v1::InProgress& message = response.in_progress();
  InProgress in_progress;
  in_progress.retry_after = FromProto(message.retry_after());
  in_progress.lease_remaining = FromProto(message.lease_remaining());
  in_progress.record_id = response.record_id();
  in_progress.attempt_number = message.attempt_number();
  in_progress.start_time = FromProto(message.start_time());
  return in_progress;
}

Record RecordOf(const v1::LookupResponse& response) {
  Record record;
  record.record_id = response.record_id();
  record.operation = response.operation();
  record.state = StateOf(response.state());
  record.expired = response.expired();
  record.create_time = FromProto(response.create_time());
  record.start_time = FromProto(response.start_time());
  if (response.has_finish_time()) record.finish_time = FromProto(response.finish_time());
  if (response.has_expire_time()) record.expire_time = FromProto(response.expire_time());
  record.on_lease_expiry = FromProto(response.on_lease_expiry());
  record.attempt_number = response.attempt_number();
  record.unknown_attempts = response.unknown_attempts();
  record.fencing_token = response.fencing_token();
  record.downstream_key = response.downstream_key();
  for (const auto& [name, value] : response.labels()) record.labels[name] = value;
  if (response.has_outcome()) record.outcome = FromProto(response.outcome());
  if (response.has_failure()) record.failure = FromProto(response.failure());
  if (response.has_previous_attempt()) {
    record.previous_attempt = PreviousAttemptOf(response.previous_attempt());
  }
  return record;
}

}  // namespace idempotency::client
