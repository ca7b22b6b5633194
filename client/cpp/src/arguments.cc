#include "client/cpp/src/arguments.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "client/cpp/src/convert.h"
#include "client/cpp/src/utf8.h"

namespace idempotency::client {
namespace {

class Violations {
 public:
  void Add(std::string field, std::string description) {
    list_.push_back({std::move(field), std::move(description)});
  }
  // Messages hold text as UTF-8 only: the service could not name the field of anything else.
  void CheckText(const char* field, std::string_view text) {
    if (!IsUtf8(text)) Add(field, "must be UTF-8");
  }
  template <typename Span>
  void CheckNotNegative(const char* field, const Span& span) {
    if (span < Span::zero()) Add(field, "must not be negative");
  }
  void CheckPositive(const char* field, std::chrono::milliseconds span) {
    if (span <= std::chrono::milliseconds::zero()) Add(field, "must be longer than nothing");
  }
  void CheckKey(const Key& key) {
    if (key.fault.has_value()) list_.push_back(*key.fault);
    if (key.merchant_id.empty()) Add("merchant_id", "must not be empty");
    if (key.idempotency_key.empty() && !key.fault.has_value()) {
      Add("idempotency_key", "must not be empty");
    }
    CheckText("merchant_id", key.merchant_id);
    CheckText("idempotency_key", key.idempotency_key);
  }

  std::optional<Error> TakeError() {
    if (list_.empty()) return std::nullopt;
    return InvalidField(std::move(list_));
  }

 private:
  std::vector<FieldViolation> list_;
};

void CheckOptions(const Key& key, const RunOptions& options, OnLeaseExpiry on_lease_expiry,
                  Violations* violations) {
  if (const auto ttl = TtlOf(key, options)) violations->CheckNotNegative("ttl", *ttl);
  if (options.lease_duration.has_value()) {
    violations->CheckNotNegative("lease_duration", *options.lease_duration);
  }
  violations->CheckNotNegative("wait_timeout", options.wait_timeout);
  violations->CheckPositive("max_duration", options.max_duration);
  violations->CheckPositive("start_timeout", options.start_timeout);
  for (const auto& [name, value] : options.labels) {
    if (IsUtf8(name) && IsUtf8(value)) continue;
    violations->Add("labels", "must be UTF-8");
    break;
  }
  switch (options.on_unavailable) {
    case OnUnavailable::kFail:
      break;
    case OnUnavailable::kRunUnprotected:
      if (on_lease_expiry == OnLeaseExpiry::kHold) {
        violations->Add("on_unavailable",
                        "must be kFail with kHold: what must not be done twice cannot be done "
                        "without the service");
      }
      break;
    default:
      violations->Add("on_unavailable", "must be kFail or kRunUnprotected");
  }
}

}  // namespace

Error InvalidField(std::vector<FieldViolation> violations) {
  Error error;
  error.kind = ErrorKind::kInvalidField;
  for (const FieldViolation& violation : violations) {
    if (!error.message.empty()) error.message += "; ";
    error.message += violation.field + ": " + violation.description;
  }
  error.violations = std::move(violations);
  return error;
}

std::optional<Error> FaultOf(const Key& key) {
  Violations violations;
  violations.CheckKey(key);
  return violations.TakeError();
}

std::optional<Error> FaultOf(const ClientOptions& options) {
  Violations violations;
  violations.CheckPositive("rpc_timeout", options.rpc_timeout);
  violations.CheckNotNegative("record_timeout", options.record_timeout);
  violations.CheckNotNegative("shutdown_timeout", options.shutdown_timeout);
  return violations.TakeError();
}

std::optional<Error> FaultOf(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                             const Work& fn, const RunOptions& options) {
  Violations violations;
  violations.CheckKey(key);
  violations.CheckText("operation", request.operation);
  if (const auto* payload = std::get_if<Payload>(&request.content)) {
    violations.CheckText("payload.content_type", payload->content_type);
  }
  if (on_lease_expiry != OnLeaseExpiry::kTakeOver && on_lease_expiry != OnLeaseExpiry::kHold) {
    violations.Add("on_lease_expiry", "must be kTakeOver or kHold");
  }
  CheckOptions(key, options, on_lease_expiry, &violations);
  if (!fn) violations.Add("fn", "must be given");
  return violations.TakeError();
}

}  // namespace idempotency::client
