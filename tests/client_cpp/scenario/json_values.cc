#include "tests/client_cpp/scenario/json_values.h"

#include <variant>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "client/cpp/src/encoding.h"
#include "client/cpp/src/utf8.h"

namespace idempotency::client {
namespace {

using nlohmann::json;

const char* NameOf(FailureDisposition disposition) {
  switch (disposition) {
    case FailureDisposition::kNotApplied:
      return "not_applied";
    case FailureDisposition::kFinal:
      return "final";
    case FailureDisposition::kUnknown:
      break;
  }
  return "unknown";
}

const char* NameOf(RecordState state) {
  switch (state) {
    case RecordState::kInProgress:
      return "IN_PROGRESS";
    case RecordState::kCompleted:
      return "COMPLETED";
    case RecordState::kFailed:
      return "FAILED";
    case RecordState::kReleased:
      return "RELEASED";
    case RecordState::kAbandoned:
      break;
  }
  return "ABANDONED";
}

const char* NameOf(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "none";
    case StopReason::kLeaseLost:
      return "lease_lost";
    case StopReason::kMaxDuration:
      return "max_duration";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kDeadline:
      break;
  }
  return "deadline";
}

const char* NameOf(OnLeaseExpiry action) {
  return action == OnLeaseExpiry::kHold ? "HOLD" : "TAKE_OVER";
}

std::string InstantOf(std::chrono::system_clock::time_point instant) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromChrono(instant), absl::UTCTimeZone());
}

json JsonOf(const Outcome& outcome) {
  json headers = json::array();
  for (const Header& header : outcome.headers) {
    headers.push_back({JsonOfBytes(header.name), JsonOfBytes(header.value)});
  }
  json value = {{"status_code", outcome.status_code},
                {"headers", std::move(headers)},
                {"content_type", outcome.content_type},
                {"response_id", outcome.response_id},
                {"body_omitted", outcome.body_omitted}};
  if (outcome.body.has_value()) value["body"] = JsonOfBytes(*outcome.body);
  if (outcome.body_size.has_value()) value["body_size"] = *outcome.body_size;
  if (!outcome.body_sha256.empty()) value["body_sha256_hex"] = Hex(outcome.body_sha256);
  return value;
}

json JsonOf(const Failure& failure) {
  json value = {{"disposition", NameOf(failure.disposition)},
                {"code", failure.code},
                {"message", failure.message}};
  if (failure.outcome.has_value()) value["outcome"] = JsonOf(*failure.outcome);
  return value;
}

json JsonOf(const WorkResult& work) {
  if (const Outcome* outcome = work.outcome()) {
    return {{"kind", "completed"}, {"outcome", JsonOf(*outcome)}};
  }
  json value = JsonOf(*work.failure());
  value["kind"] = value["disposition"];
  value.erase("disposition");
  return value;
}

json JsonOf(const Error& error) {
  json violations = json::array();
  for (const FieldViolation& violation : error.violations) violations.push_back(violation.field);
  return {{"kind", ErrorKindName(error.kind)},
          {"reason", error.reason},
          {"violations", std::move(violations)},
          {"metadata", error.metadata},
          {"still_recording", error.still_recording}};
}

struct ResultVisitor {
  json operator()(const Completed& completed) const {
    json value = Recorded("Completed", completed);
    value["outcome"] = JsonOf(completed.outcome);
    return value;
  }
  json operator()(const Failed& failed) const {
    json value = Recorded("Failed", failed);
    value["failure"] = JsonOf(failed.failure);
    value["threw"] = failed.exception != nullptr;
    return value;
  }
  json operator()(const Replayed& replayed) const {
    json value = {{"result", "Replayed"},
                  {"record_id", replayed.record_id},
                  {"attempt_number", replayed.attempt_number},
                  {"start_time", InstantOf(replayed.start_time)},
                  {"finish_time", InstantOf(replayed.finish_time)}};
    if (const auto* outcome = std::get_if<Outcome>(&replayed.answer)) {
      value["outcome"] = JsonOf(*outcome);
    } else {
      value["failure"] = JsonOf(std::get<Failure>(replayed.answer));
    }
    return value;
  }
  json operator()(const InProgress& in_progress) const {
    return {{"result", "InProgress"},
            {"retry_after_ms", in_progress.retry_after.count()},
            {"record_id", in_progress.record_id},
            {"attempt_number", in_progress.attempt_number},
            {"start_time", InstantOf(in_progress.start_time)}};
  }
  json operator()(const Unprotected& unprotected) const {
    return {{"result", "Unprotected"},
            {"work", JsonOf(unprotected.work)},
            {"threw", unprotected.exception != nullptr}};
  }
  json operator()(const Error& error) const {
    json value = {
        {"result", "Error"}, {"error", JsonOf(error)}, {"threw", error.exception != nullptr}};
    if (error.retry_after.has_value()) value["retry_after_ms"] = error.retry_after->count();
    if (error.work.has_value()) value["work"] = JsonOf(*error.work);
    return value;
  }

 private:
  template <typename Result>
  static json Recorded(const char* name, const Result& result) {
    return {{"result", name},
            {"recorded_without_body", result.recorded_without_body},
            {"record_id", result.record_id},
            {"attempt_number", result.attempt_number},
            {"finish_time", InstantOf(result.finish_time)}};
  }
};

}  // namespace

json JsonOfBytes(const std::string& bytes) {
  if (IsUtf8(bytes)) return bytes;
  return {{"base64", absl::Base64Escape(bytes)}};
}

std::string BytesOfJson(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string bytes;
  if (!absl::Base64Unescape(value.at("base64").get<std::string>(), &bytes)) return "not base64";
  return bytes;
}

Outcome OutcomeOfJson(const json& value) {
  Outcome outcome;
  outcome.status_code = value.at("status_code").get<int32_t>();
  for (const json& header : value.value("headers", json::array())) {
    outcome.headers.push_back({BytesOfJson(header.at(0)), BytesOfJson(header.at(1))});
  }
  outcome.content_type = value.value("content_type", "");
  outcome.response_id = value.value("response_id", "");
  if (value.contains("body") && !value.at("body").is_null()) {
    outcome.body = BytesOfJson(value.at("body"));
  }
  outcome.body_omitted = value.value("body_omitted", false);
  if (value.contains("body_size")) outcome.body_size = value.at("body_size").get<int64_t>();
  if (value.contains("body_sha256_hex")) {
    outcome.body_sha256 = absl::HexStringToBytes(value.at("body_sha256_hex").get<std::string>());
  }
  return outcome;
}

FailureDisposition DispositionOfJson(const json& value) {
  const auto name = value.get<std::string>();
  return name == "not_applied" ? FailureDisposition::kNotApplied
         : name == "final"     ? FailureDisposition::kFinal
                               : FailureDisposition::kUnknown;
}

WorkResult WorkOfJson(const json& value) {
  const auto kind = value.at("kind").get<std::string>();
  if (kind == "completed") return WorkResult::Completed(OutcomeOfJson(value.at("outcome")));
  const std::string code = value.value("code", "");
  const std::string message = value.value("message", "");
  switch (DispositionOfJson(value.at("kind"))) {
    case FailureDisposition::kNotApplied:
      return WorkResult::NotApplied(code, message);
    case FailureDisposition::kFinal:
      return value.contains("outcome")
                 ? WorkResult::FinalFailure(code, message, OutcomeOfJson(value.at("outcome")))
                 : WorkResult::FinalFailure(code, message);
    case FailureDisposition::kUnknown:
      break;
  }
  return WorkResult::Unknown(code, message);
}

json JsonOf(const RunResult& result) { return std::visit(ResultVisitor(), result); }

json JsonOf(const LookupResult& result) {
  if (const auto* error = std::get_if<Error>(&result)) return {{"error", JsonOf(*error)}};
  const auto& record = std::get<Record>(result);
  json value = {{"state", NameOf(record.state)},
                {"operation", record.operation},
                {"record_id", record.record_id},
                {"attempt_number", record.attempt_number},
                {"unknown_attempts", record.unknown_attempts},
                {"on_lease_expiry", NameOf(record.on_lease_expiry)},
                {"labels", record.labels}};
  if (record.outcome.has_value()) value["outcome"] = JsonOf(*record.outcome);
  if (record.failure.has_value()) value["failure"] = JsonOf(*record.failure);
  return {{"record", std::move(value)}};
}

json JsonOf(const Attempt& attempt, StopReason reason) {
  json value = {{"attempt_number", attempt.attempt_number},
                {"unknown_attempts", attempt.unknown_attempts},
                {"repeated", attempt.repeated},
                {"unprotected", attempt.unprotected},
                {"downstream_key", attempt.downstream_key},
                {"fencing_token", attempt.fencing_token},
                {"record_id", attempt.record_id},
                {"on_lease_expiry", NameOf(attempt.on_lease_expiry)},
                {"stop_reason", NameOf(reason)}};
  if (attempt.previous_attempt.has_value()) {
    value["previous_attempt"] = {{"attempt_number", attempt.previous_attempt->attempt_number}};
    if (attempt.previous_attempt->failure.has_value()) {
      value["previous_attempt"]["disposition"] =
          NameOf(attempt.previous_attempt->failure->disposition);
    }
  }
  return value;
}

}  // namespace idempotency::client
