// Requests as they came over the wire, turned into what the engine takes, or into the list of what
// is wrong.
//
// Everything a caller can get wrong in a well-formed message is found here, and all of it at once:
// one violation per field, at most kMaxFieldViolations, in the order of the request's fields. A
// violation names the field's path (outcome.headers[3].name, labels["order"]) and says the bound.
// It repeats nothing that a field holds, but for a label's name inside its own path.
//
// Thread-safe: functions of their arguments only. They take time proportional to the message;
// ValidateBegin of a large payload canonicalises it and may take tens of milliseconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/record/limit.h"
#include "server/record/record.h"

namespace idempotency {

struct FieldViolation {
  std::string field;
  std::string description;
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

// The field that a message which cannot be parsed is reported under.
inline constexpr char kWholeMessage[] = "(message)";

// Violations in the order they were found; those past kMaxFieldViolations are left out.
class Violations {
 public:
  void Add(std::string field, std::string description);
  bool empty() const { return list_.empty(); }
  bool full() const { return list_.size() >= kMaxFieldViolations; }
  const std::vector<FieldViolation>& list() const { return list_; }

 private:
  std::vector<FieldViolation> list_;
};

// A span that callers may leave out. `shortest` and `longest` are bounds that are still allowed.
struct DurationBounds {
  absl::Duration shortest;
  absl::Duration standard;
  absl::Duration longest;
};

// The bounds that are settings.
struct RequestBounds {
  // Whole seconds.
  DurationBounds ttl = {absl::Minutes(1), absl::Hours(24), absl::Hours(30 * 24)};
  // Whole milliseconds.
  DurationBounds lease = {absl::Seconds(1), absl::Seconds(60), absl::Hours(1)};
  // At most kMaxOutcomeBodyBytes.
  size_t max_outcome_body_bytes = kDefaultOutcomeBodyBytes;
};

struct ValidBegin {
  BeginItem item;
  // Zero: answer at once. At most kMaxWait.
  absl::Duration wait;
  // As given, or made here when the caller left it out. A secret: never logged.
  std::string attempt_id;
};

// Each fills `valid` and leaves `violations` empty, or adds what is wrong; `valid` then holds
// nothing of use. REQUIRES: violations->empty().
void ValidateBegin(const v1::BeginRequest& request, const RequestBounds& bounds, ValidBegin* valid,
                   Violations* violations);
void ValidateComplete(const v1::CompleteRequest& request, const RequestBounds& bounds,
                      OwnerItem* valid, Violations* violations);
void ValidateFail(const v1::FailRequest& request, const RequestBounds& bounds, OwnerItem* valid,
                  Violations* violations);
void ValidateRenew(const v1::RenewRequest& request, const RequestBounds& bounds, OwnerItem* valid,
                   Violations* violations);
void ValidateLookup(const v1::LookupRequest& request, LookupItem* valid, Violations* violations);

}  // namespace idempotency
