#include "server/rpc/validate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/record/fingerprint.h"
#include "server/record/record_id.h"
#include "server/rpc/field_rules.h"

namespace idempotency {
namespace {

void CheckKey(const std::string& merchant_id, const std::string& idempotency_key, RecordKey* key,
              Violations* violations) {
  if (CheckLength("merchant_id", merchant_id, {1, kMaxMerchantIdBytes}, violations) &&
      !IsMerchantId(merchant_id)) {
    violations->Add("merchant_id", "must be made of A-Z a-z 0-9 . _ : -");
  }
  CheckPrintableAscii("idempotency_key", idempotency_key, {1, kMaxIdempotencyKeyBytes}, violations);
  key->merchant_id = merchant_id;
  key->idempotency_key = idempotency_key;
}

void CheckAttemptId(const std::string& attempt_id, Violations* violations) {
  CheckPrintableAscii("attempt_id", attempt_id, {kMinAttemptIdBytes, kMaxAttemptIdBytes},
                      violations);
}

void CheckFingerprint(const v1::BeginRequest& request, BeginItem* item, Violations* violations) {
  switch (request.request_case()) {
    case v1::BeginRequest::kFingerprint:
      if (request.fingerprint().size() != kFingerprintBytes) {
        violations->Add("fingerprint", absl::StrCat("must be exactly ", kFingerprintBytes,
                                                    " bytes, such as a SHA-256"));
        return;
      }
      std::copy(request.fingerprint().begin(), request.fingerprint().end(),
                item->fingerprint.begin());
      item->fingerprint_scheme = request.fingerprint_scheme();
      return;
    case v1::BeginRequest::kPayload: {
      const v1::Payload& payload = request.payload();
      const size_t before = violations->list().size();
      if (payload.data().size() > kMaxPayloadBytes) {
        violations->Add("payload.data", absl::StrCat("must be at most ", kMaxPayloadBytes,
                                                     " bytes; send a fingerprint instead"));
      }
      CheckPrintableAscii("payload.content_type", payload.content_type(), {0, kMaxContentTypeBytes},
                          violations);
      if (violations->list().size() > before) return;
      absl::StatusOr<Fingerprint> fingerprint =
          FingerprintOf(payload.content_type(), payload.data());
      if (!fingerprint.ok()) {
        violations->Add("payload.data", std::string(fingerprint.status().message()));
        return;
      }
      item->fingerprint = *fingerprint;
      item->fingerprint_scheme = 1;
      return;
    }
    case v1::BeginRequest::REQUEST_NOT_SET:
      violations->Add("request", "is required: one of fingerprint and payload");
      return;
  }
}

// The path of one label. Quotes and backslashes are escaped as in JSON, so that the path has one
// reading.
std::string LabelPath(absl::string_view name) {
  return absl::StrCat("labels[\"", absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\"", "\\\""}}),
                      "\"]");
}

void CheckLabels(const google::protobuf::Map<std::string, std::string>& given, Labels* labels,
                 Violations* violations) {
  if (given.size() > kMaxLabels) {
    violations->Add("labels", absl::StrCat("must be at most ", kMaxLabels, " labels"));
    return;
  }
  // The wire has no order; the sorted copy gives the violations one.
  *labels = Labels(given.begin(), given.end());
  bool names_are_bad = false;
  for (const auto& [name, value] : *labels) {
    if (name.empty() || name.size() > kMaxLabelNameBytes || !HasNoControlCharacters(name)) {
      names_are_bad = true;
    } else if (value.size() > kMaxLabelValueBytes) {
      violations->Add(LabelPath(name),
                      absl::StrCat("must be at most ", kMaxLabelValueBytes, " bytes"));
    } else if (!HasNoControlCharacters(value)) {
      violations->Add(LabelPath(name), "must have no control characters");
    }
  }
  if (names_are_bad) {
    violations->Add("labels", absl::StrCat("must have names of 1 to ", kMaxLabelNameBytes,
                                           " bytes without control characters"));
  }
}

void CheckHeaders(const std::string& path, const v1::Outcome& given, Outcome* outcome,
                  Violations* violations) {
  const std::string headers_path = absl::StrCat(path, ".headers");
  const auto count = static_cast<size_t>(given.headers_size());
  if (count > kMaxHeaders) {
    violations->Add(headers_path, absl::StrCat("must be at most ", kMaxHeaders, " headers"));
    return;
  }
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const v1::Header& header = given.headers(static_cast<int>(i));
    bytes += header.name().size() + header.value().size();
    const std::string name_path = absl::StrCat(headers_path, "[", i, "].name");
    if (CheckLength(name_path, header.name(), {1, kMaxHeaderNameBytes}, violations) &&
        !IsToken(header.name())) {
      violations->Add(name_path,
                      "must be made of RFC 9110 token characters: letters, digits and "
                      "!#$%&'*+-.^_`|~");
    }
    outcome->headers.push_back({header.name(), header.value()});
  }
  if (bytes > kMaxHeadersBytes) {
    violations->Add(headers_path, absl::StrCat("must have at most ", kMaxHeadersBytes,
                                               " bytes of names and values together"));
  }
}

void CheckBody(const std::string& path, const v1::Outcome& given, size_t max_body_bytes,
               Outcome* outcome, Violations* violations) {
  const std::string body = absl::StrCat(path, ".body");
  const std::string size = absl::StrCat(path, ".body_size");
  const std::string sha256 = absl::StrCat(path, ".body_sha256");
  if (given.body_omitted()) {
    if (given.has_body()) violations->Add(body, "must be absent beside body_omitted");
    if (!given.has_body_size()) {
      violations->Add(size, "is required with body_omitted");
    } else if (given.body_size() < 0) {
      violations->Add(size, "must not be negative");
    }
    if (given.body_sha256().size() != kDigestBytes) {
      violations->Add(
          sha256, absl::StrCat("is required with body_omitted: exactly ", kDigestBytes, " bytes"));
    }
    outcome->body_omitted = true;
    outcome->body_size = given.body_size();
    outcome->body_sha256 = given.body_sha256();
    return;
  }
  if (given.has_body()) {
    if (given.body().size() > max_body_bytes) {
      violations->Add(body, absl::StrCat("must be at most ", max_body_bytes,
                                         " bytes; record the outcome again with body_omitted, "
                                         "body_size and body_sha256"));
    } else {
      outcome->body = given.body();
    }
  }
  if (given.has_body_size()) violations->Add(size, "must be absent without body_omitted");
  if (!given.body_sha256().empty()) {
    violations->Add(sha256, "must be absent without body_omitted");
  }
}

void CheckOutcome(const std::string& path, const v1::Outcome& given, size_t max_body_bytes,
                  Outcome* outcome, Violations* violations) {
  outcome->status_code = given.status_code();
  CheckHeaders(path, given, outcome, violations);
  CheckPrintableAscii(absl::StrCat(path, ".content_type"), given.content_type(),
                      {0, kMaxContentTypeBytes}, violations);
  outcome->content_type = given.content_type();
  CheckPrintableAscii(absl::StrCat(path, ".response_id"), given.response_id(),
                      {0, kMaxResponseIdBytes}, violations);
  outcome->response_id = given.response_id();
  CheckBody(path, given, max_body_bytes, outcome, violations);
}

std::optional<Disposition> DispositionOf(v1::FailureDisposition given) {
  switch (given) {
    case v1::FAILURE_DISPOSITION_NOT_APPLIED:
      return Disposition::kNotApplied;
    case v1::FAILURE_DISPOSITION_FINAL:
      return Disposition::kFinal;
    case v1::FAILURE_DISPOSITION_UNKNOWN:
      return Disposition::kUnknown;
    default:
      return std::nullopt;
  }
}

absl::Duration CheckLease(const google::protobuf::Duration* given, const RequestBounds& bounds,
                          Violations* violations) {
  return CheckDuration("lease_duration", given, bounds.lease, absl::Milliseconds(1), violations);
}

}  // namespace

void Violations::Add(std::string field, std::string description) {
  if (!full()) list_.push_back({std::move(field), std::move(description)});
}

void ValidateBegin(const v1::BeginRequest& request, const RequestBounds& bounds, ValidBegin* valid,
                   Violations* violations) {
  BeginItem& item = valid->item;
  CheckKey(request.merchant_id(), request.idempotency_key(), &item.key, violations);
  CheckPrintableAscii("operation", request.operation(), {1, kMaxOperationBytes}, violations);
  item.operation = request.operation();

  item.hold = request.on_lease_expiry() == v1::LEASE_EXPIRY_ACTION_HOLD;
  if (!request.attempt_id().empty()) {
    CheckAttemptId(request.attempt_id(), violations);
    valid->attempt_id = request.attempt_id();
  } else if (item.hold) {
    // Its answer lost, nobody could ever settle the record.
    violations->Add("attempt_id",
                    absl::StrCat("is required with LEASE_EXPIRY_ACTION_HOLD: ", kMinAttemptIdBytes,
                                 " to ", kMaxAttemptIdBytes, " bytes of printable ASCII"));
  } else {
    valid->attempt_id = RandomUuidText();
  }
  item.attempt = HashAttemptId(valid->attempt_id);

  CheckFingerprint(request, &item, violations);
  if (request.fingerprint_scheme() != 0 && request.fingerprint_scheme() != 1) {
    violations->Add("fingerprint_scheme",
                    "must be 0 (the caller's own) or 1 (the service's canonical form)");
  }
  item.ttl = CheckDuration("ttl", request.has_ttl() ? &request.ttl() : nullptr, bounds.ttl,
                           absl::Seconds(1), violations);
  item.lease_duration = CheckLease(
      request.has_lease_duration() ? &request.lease_duration() : nullptr, bounds, violations);
  valid->wait = CheckWait(
      "wait_timeout", request.has_wait_timeout() ? &request.wait_timeout() : nullptr, violations);
  if (!v1::LeaseExpiryAction_IsValid(request.on_lease_expiry())) {
    violations->Add("on_lease_expiry",
                    "must be LEASE_EXPIRY_ACTION_TAKE_OVER, LEASE_EXPIRY_ACTION_HOLD or left out");
  }
  CheckLabels(request.labels(), &item.labels, violations);
}

void ValidateComplete(const v1::CompleteRequest& request, const RequestBounds& bounds,
                      OwnerItem* valid, Violations* violations) {
  CheckKey(request.merchant_id(), request.idempotency_key(), &valid->key, violations);
  CheckAttemptId(request.attempt_id(), violations);
  valid->attempt = HashAttemptId(request.attempt_id());
  if (!request.has_outcome()) {
    violations->Add("outcome", "is required");
    return;
  }
  Outcome outcome;
  CheckOutcome("outcome", request.outcome(), bounds.max_outcome_body_bytes, &outcome, violations);
  valid->answer = std::make_shared<const Answer>(std::move(outcome));
}

void ValidateFail(const v1::FailRequest& request, const RequestBounds& bounds, OwnerItem* valid,
                  Violations* violations) {
  CheckKey(request.merchant_id(), request.idempotency_key(), &valid->key, violations);
  CheckAttemptId(request.attempt_id(), violations);
  valid->attempt = HashAttemptId(request.attempt_id());
  if (!request.has_failure()) {
    violations->Add("failure", "is required");
    return;
  }
  const v1::Failure& given = request.failure();
  Failure failure;
  const std::optional<Disposition> disposition = DispositionOf(given.disposition());
  if (disposition.has_value()) {
    failure.disposition = *disposition;
  } else {
    violations->Add("failure.disposition",
                    "is required: FAILURE_DISPOSITION_NOT_APPLIED, FAILURE_DISPOSITION_FINAL or "
                    "FAILURE_DISPOSITION_UNKNOWN");
  }
  CheckLength("failure.code", given.code(), {0, kMaxFailureCodeBytes}, violations);
  failure.code = given.code();
  CheckLength("failure.message", given.message(), {0, kMaxFailureMessageBytes}, violations);
  failure.message = given.message();
  if (given.has_outcome()) {
    CheckOutcome("failure.outcome", given.outcome(), bounds.max_outcome_body_bytes,
                 &failure.outcome.emplace(), violations);
  }
  valid->answer = std::make_shared<const Answer>(std::move(failure));
}

void ValidateRenew(const v1::RenewRequest& request, const RequestBounds& bounds, OwnerItem* valid,
                   Violations* violations) {
  CheckKey(request.merchant_id(), request.idempotency_key(), &valid->key, violations);
  CheckAttemptId(request.attempt_id(), violations);
  valid->attempt = HashAttemptId(request.attempt_id());
  valid->lease_duration = CheckLease(
      request.has_lease_duration() ? &request.lease_duration() : nullptr, bounds, violations);
}

void ValidateLookup(const v1::LookupRequest& request, LookupItem* valid, Violations* violations) {
  CheckKey(request.merchant_id(), request.idempotency_key(), &valid->key, violations);
}

}  // namespace idempotency
