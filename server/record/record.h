// The vocabulary of the service as plain values: keys, attempts, records, outcomes.
//
// What the words mean is written in docs/architecture.md ("Words"). Everything here is a value:
// copyable, owned by whoever holds it, without locks and without knowledge of gRPC, protobuf or
// PostgreSQL.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/record/fingerprint.h"

namespace idempotency {

// Whose operation, and its caller's name for it. Both compare byte for byte, never folded or
// trimmed; the order of this type is the order of the primary key (COLLATE "C"), and therefore the
// order of locks.
struct RecordKey {
  std::string merchant_id;
  std::string idempotency_key;

  friend auto operator<=>(const RecordKey&, const RecordKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RecordKey& key) {
    return H::combine(std::move(h), key.merchant_id, key.idempotency_key);
  }
};

// What is kept of an attempt id: the first 16 bytes of its SHA-256. Ownership is proven by the id
// itself, so the id is neither stored nor logged.
struct AttemptHash {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const AttemptHash&, const AttemptHash&) = default;
};
AttemptHash HashAttemptId(absl::string_view attempt_id);

// The stored states. The numbers are in the database: they are never reused.
// No answer tells kSwept from kInProgress; it marks for operators that the sweeper has seen the
// lease to be over.
enum class RecordState : int16_t {
  kInProgress = 1,
  kCompleted = 2,
  kFailedFinal = 3,
  kReleased = 4,       // failed NOT_APPLIED
  kSwept = 5,          // in progress, lease over, marked by the sweeper
  kFailedUnknown = 6,  // its own attempt said UNKNOWN
};

struct Header {
  std::string name;
  std::string value;  // any bytes
  friend bool operator==(const Header&, const Header&) = default;
};

// The recorded answer of the work. An absent body and an empty body differ.
struct Outcome {
  int32_t status_code = 0;
  std::vector<Header> headers;  // in order, repeats allowed
  std::string content_type;
  std::optional<std::string> body;
  std::string response_id;
  // Set when the body could not be stored: then body_size and body_sha256 describe it and `body` is
  // absent.
  bool body_omitted = false;
  std::optional<int64_t> body_size;
  std::string body_sha256;  // 32 bytes, or empty
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

enum class Disposition : int32_t {
  kNotApplied = 1,  // known: nothing happened
  kFinal = 2,       // known: it failed for good
  kUnknown = 3,     // the caller cannot tell
};

struct Failure {
  Disposition disposition = Disposition::kUnknown;
  std::string code;
  std::string message;
  std::optional<Outcome> outcome;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// What an attempt recorded: an Outcome by Complete, a Failure by Fail.
using Answer = std::variant<Outcome, Failure>;

// The state that recording `answer` leads to.
RecordState StateAfter(const Answer& answer);

// SHA-256 over an answer's content as the specification lists it: two answers are the same content
// exactly when their digests are equal. Does not depend on any serialisation, so that server
// versions agree.
using ContentDigest = std::array<uint8_t, 32>;
ContentDigest DigestOf(const Answer& answer);

// How the attempt before the present one ended. No failure: its lease ran out.
struct PreviousAttempt {
  int32_t attempt_number = 0;
  absl::Time started_at;
  absl::Time lease_expires_at;
  std::optional<Failure> failure;
  friend bool operator==(const PreviousAttempt&, const PreviousAttempt&) = default;
};

// Evidence: the last Complete or Fail of one of the record's attempts that was refused.
struct RefusedOutcome {
  int32_t status_code = 0;  // 0 for a failure without outcome
  std::string response_id;
  ContentDigest content_digest{};
  absl::Time refused_at;
  int32_t attempt_number = 0;
  friend bool operator==(const RefusedOutcome&, const RefusedOutcome&) = default;
};

using Labels = std::map<std::string, std::string>;

// One row. Instants are the database's readings, to the microsecond.
struct Record {
  RecordKey key;
  std::string operation;
  Fingerprint fingerprint{};
  int32_t fingerprint_scheme = 0;
  Labels labels;

  absl::Time created_at;
  absl::Duration ttl;  // whole seconds
  bool hold = false;   // on_lease_expiry in force: HOLD, else TAKE_OVER

  RecordState state = RecordState::kInProgress;
  AttemptHash attempt;  // the last one
  int32_t attempt_number = 1;
  int64_t fencing_token = 0;
  absl::Time started_at;  // of the last attempt
  absl::Time lease_expires_at;
  absl::Duration lease_duration;          // whole milliseconds; never lowered by a Renew
  std::optional<absl::Time> finished_at;  // when the answer was recorded
  std::shared_ptr<const Answer> answer;   // null while nothing is recorded for the last attempt

  std::vector<AttemptHash> earlier_attempts;  // oldest first, at most kEarlierAttempts
  int32_t unknown_attempts = 0;
  std::optional<PreviousAttempt> previous_attempt;
  std::optional<RefusedOutcome> refused_outcome;
};

// What a Begin asks. `ttl` is whole seconds, `lease_duration` whole milliseconds.
struct BeginItem {
  RecordKey key;
  std::string operation;
  Fingerprint fingerprint{};
  int32_t fingerprint_scheme = 0;
  AttemptHash attempt;
  absl::Duration ttl;
  absl::Duration lease_duration;
  bool hold = false;
  Labels labels;
};

// What an attempt asks of its own record: Complete or Fail (with an answer), or Renew (without).
struct OwnerItem {
  RecordKey key;
  AttemptHash attempt;
  std::shared_ptr<const Answer> answer;  // null: Renew
  absl::Duration lease_duration;         // Renew only, whole milliseconds

  bool IsRenew() const { return answer == nullptr; }
};

struct LookupItem {
  RecordKey key;
};

}  // namespace idempotency
