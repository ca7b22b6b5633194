#include "tests/util/describe.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace idempotency {
namespace {

std::string Hex(const uint8_t* bytes, size_t size) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), size));
}

std::string Micros(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6S", time, absl::UTCTimeZone());
}

// A long text is told by its size and digest, so that a difference stays readable.
std::string Text(const std::string& text) {
  constexpr size_t kShown = 64;
  if (text.size() <= kShown) return absl::StrCat("\"", absl::CHexEscape(text), "\"");
  Outcome body;
  body.body = text;
  const ContentDigest digest = DigestOf(body);
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 16)), "…\" (", text.size(),
                      " bytes, digest ", Hex(digest.data(), 8), ")");
}

}  // namespace

std::string Describe(BeginVerdict verdict) {
  switch (verdict) {
    case BeginVerdict::kStarted:
      return "started";
    case BeginVerdict::kReplay:
      return "replay";
    case BeginVerdict::kInProgress:
      return "in_progress";
    case BeginVerdict::kKeyReused:
      return "KEY_REUSED";
    case BeginVerdict::kLeaseLost:
      return "LEASE_LOST";
    case BeginVerdict::kNeedsResolution:
      return "NEEDS_RESOLUTION";
  }
  return "unknown verdict";
}

std::string Describe(OwnerVerdict verdict) {
  switch (verdict) {
    case OwnerVerdict::kRecorded:
      return "recorded";
    case OwnerVerdict::kAlreadyRecorded:
      return "already recorded";
    case OwnerVerdict::kRenewed:
      return "renewed";
    case OwnerVerdict::kAlreadyFinished:
      return "ALREADY_FINISHED";
    case OwnerVerdict::kOutcomeConflict:
      return "OUTCOME_CONFLICT";
    case OwnerVerdict::kLeaseLost:
      return "LEASE_LOST";
    case OwnerVerdict::kRecordNotFound:
      return "RECORD_NOT_FOUND";
    case OwnerVerdict::kNeedsResolution:
      return "NEEDS_RESOLUTION";
  }
  return "unknown verdict";
}

std::string Describe(RecordState state) {
  switch (state) {
    case RecordState::kInProgress:
      return "in progress";
    case RecordState::kCompleted:
      return "completed";
    case RecordState::kFailedFinal:
      return "failed FINAL";
    case RecordState::kReleased:
      return "released";
    case RecordState::kSwept:
      return "swept";
    case RecordState::kFailedUnknown:
      return "failed UNKNOWN";
  }
  return "unknown state";
}

std::string Describe(const Outcome& outcome) {
  std::string text = absl::StrCat("outcome ", outcome.status_code, " headers [");
  for (const Header& header : outcome.headers) {
    absl::StrAppend(&text, Text(header.name), ": ", Text(header.value), "; ");
  }
  absl::StrAppend(&text, "] type ", Text(outcome.content_type), " body ",
                  outcome.body.has_value() ? Text(*outcome.body) : "absent", " response_id ",
                  Text(outcome.response_id));
  absl::StrAppend(&text, outcome.body_omitted ? " omitted" : "");
  if (outcome.body_size.has_value()) absl::StrAppend(&text, " size ", *outcome.body_size);
  absl::StrAppend(&text, " sha256 ", absl::BytesToHexString(outcome.body_sha256));
  return text;
}

std::string Describe(const Failure& failure) {
  return absl::StrCat("failure ", static_cast<int>(failure.disposition), " code ",
                      Text(failure.code), " message ", Text(failure.message), " ",
                      failure.outcome.has_value() ? Describe(*failure.outcome) : "no outcome");
}

std::string Describe(const Answer& answer) {
  const auto* failure = std::get_if<Failure>(&answer);
  return failure == nullptr ? Describe(std::get<Outcome>(answer)) : Describe(*failure);
}

std::string DescribeAfterWrite(const Record& record) {
  std::string text = absl::StrCat(
      "merchant ", Text(record.key.merchant_id), "\nkey ", Text(record.key.idempotency_key),
      "\ncreated ", Micros(record.created_at), "\nstate ", Describe(record.state), "\nattempt ",
      record.attempt_number, " ", Hex(record.attempt.bytes.data(), record.attempt.bytes.size()));
  absl::StrAppend(&text, "\nlease ends ", Micros(record.lease_expires_at), " lease of ",
                  absl::FormatDuration(record.lease_duration), "\nfinished ",
                  record.finished_at.has_value() ? Micros(*record.finished_at) : "no", "\nanswer ",
                  record.answer == nullptr ? "none" : Describe(*record.answer));
  return text;
}

std::string Describe(const Record& record) {
  std::string text = DescribeAfterWrite(record);
  absl::StrAppend(&text, "\noperation ", Text(record.operation), "\nfingerprint ",
                  Hex(record.fingerprint.data(), record.fingerprint.size()), " scheme ",
                  record.fingerprint_scheme, "\nttl ", absl::FormatDuration(record.ttl), "\n",
                  record.hold ? "HOLD" : "TAKE_OVER", "\ntoken ", record.fencing_token,
                  "\nstarted ", Micros(record.started_at), "\nunknown attempts ",
                  record.unknown_attempts, "\nlabels ");
  for (const auto& [name, value] : record.labels) {
    absl::StrAppend(&text, Text(name), "=", Text(value), "; ");
  }
  absl::StrAppend(&text, "\nearlier");
  for (const AttemptHash& earlier : record.earlier_attempts) {
    absl::StrAppend(&text, " ", Hex(earlier.bytes.data(), earlier.bytes.size()));
  }
  absl::StrAppend(&text, "\nprevious ");
  if (const auto& previous = record.previous_attempt; previous.has_value()) {
    absl::StrAppend(&text, previous->attempt_number, " ", Micros(previous->started_at), " ",
                    Micros(previous->lease_expires_at), " ",
                    previous->failure.has_value() ? Describe(*previous->failure) : "ran out");
  }
  absl::StrAppend(&text, "\nrefused ");
  if (const auto& refused = record.refused_outcome; refused.has_value()) {
    absl::StrAppend(&text, refused->status_code, " ", Text(refused->response_id), " ",
                    Hex(refused->content_digest.data(), refused->content_digest.size()), " ",
                    Micros(refused->refused_at), " attempt ", refused->attempt_number);
  }
  return text;
}

std::string Describe(const Record* record) {
  return record == nullptr ? "none" : Describe(*record);
}

}  // namespace idempotency
