// What goes into a protected operation and what comes out of it, as plain values.
//
// Nothing here needs gRPC or protobuf. All bounds are the server's: a value outside them is not
// cut to fit but refused, and reported as ErrorKind::kInvalidField with the field's name. Lengths
// are bytes. Printable ASCII means 0x20 to 0x7E.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace idempotency::client {

struct FieldViolation {
  // A path such as outcome.headers[3].name.
  std::string field;
  std::string description;
};

// Which operation this is: the caller's name for it, unique within the merchant. The same for every
// retry of the operation, and for nothing else.
struct Key {
  // 1 to 64 of A-Z a-z 0-9 . _ : -
  std::string merchant_id;
  // 1 to 255 of printable ASCII, compared byte for byte. keys.h makes some.
  std::string idempotency_key;
  // How long records of this key answer, where RunOptions::ttl does not say.
  std::optional<std::chrono::seconds> ttl = std::nullopt;
  // Why this is no key, by the function that could not make one: every call with it is
  // kInvalidField.
  std::optional<FieldViolation> fault = std::nullopt;
};

// The request's body, up to 1 MiB. The server hashes it and does not keep it. JSON is compared as a
// document: white space, member order and escapes do not matter, numbers keep their exact value.
struct Payload {
  std::string data;
  // application/json and types ending in +json are compared as JSON, all others byte for byte.
  std::string content_type;
};

// Instead of the body: a SHA-256 that all callers of the key make in the same way.
struct Fingerprint {
  // Exactly 32 bytes, not hexadecimal.
  std::string sha256;
  // 0: the callers' own way. 1: the server's canonical form, made by an implementation that passes
  // its vectors.
  int scheme = 0;
};

// What is asked for. A second call with the same key and another request is refused (kKeyReused).
struct Request {
  Request(std::string what, Payload payload)
      : operation(std::move(what)), content(std::move(payload)) {}
  Request(std::string what, Fingerprint fingerprint)
      : operation(std::move(what)), content(std::move(fingerprint)) {}

  // What is done, a constant text such as "POST /orders": 1 to 128 of printable ASCII.
  std::string operation;
  std::variant<Payload, Fingerprint> content;
};

// What happens when a process dies, or hangs, between the start of the work and its record. There
// is no default: it depends on the partner. Zero is none of them, so that a value which somebody
// forgot to set is refused.
enum class OnLeaseExpiry {
  // The next call does the work again and is told that an attempt ended unknown
  // (Attempt::unknown_attempts). For partners that are idempotent by the downstream key, or can be
  // asked.
  kTakeOver = 1,
  // Nobody does the work again (kNeedsResolution) until a person or the reconciliation has found
  // out what happened. For partners that would pay twice.
  kHold = 2,
};

struct Header {
  // 1 to 128 token characters of RFC 9110.
  std::string name;
  // Any bytes.
  std::string value;
};

// The operation's answer. Every later call with the key gets exactly this, byte for byte.
struct Outcome {
  // In the caller's own protocol, not interpreted.
  int32_t status_code = 0;
  // At most 64, and 16 KiB of names and values together. Order and repeats are kept.
  std::vector<Header> headers;
  // At most 255 of printable ASCII.
  std::string content_type;
  // Absent and empty are different. 256 KiB unless the server is set otherwise. A longer one is
  // recorded by its size and digest alone: see body_omitted.
  std::optional<std::string> body;
  // The caller's own id of the answer, such as the payment's: at most 255 of printable ASCII.
  std::string response_id;

  // Only in answers. True: there was a body, it was too large to be recorded, and only its size in
  // bytes and its SHA-256 (32 bytes) are known.
  bool body_omitted = false;
  std::optional<int64_t> body_size;
  std::string body_sha256;
};

// What is known about an attempt that did not succeed.
enum class FailureDisposition {
  // Nothing happened, for certain. The key is free for the next call.
  kNotApplied,
  // The operation failed for good; the failure is the answer, and is replayed like one.
  kFinal,
  // It may have happened. The default for everything that is not known to be one of the others.
  kUnknown,
};

struct Failure {
  FailureDisposition disposition = FailureDisposition::kUnknown;
  // The caller's own code, and words for people. UTF-8; cut by this library to 64 and 1,024 bytes,
  // because a failure must be recorded however long its words are. No secrets: support staff read
  // them.
  std::string code;
  std::string message;
  // The answer that goes with it, if there is one.
  std::optional<Outcome> outcome;
};

// What the work came to: what `fn` returns.
class WorkResult {
 public:
  // Done. `outcome` is the answer from now on.
  static WorkResult Completed(Outcome outcome) { return WorkResult(std::move(outcome)); }
  // Only with proof that nothing happened and nothing will: the request was never sent, or the
  // partner refused it. A time-out, a reset connection or a 5xx is no proof.
  static WorkResult NotApplied(const std::string& code, const std::string& message) {
    return Failed(FailureDisposition::kNotApplied, code, message, std::nullopt);
  }
  // Failed for good: card declined, account closed. Every later call gets this answer.
  static WorkResult FinalFailure(const std::string& code, const std::string& message,
                                 std::optional<Outcome> outcome = std::nullopt) {
    return Failed(FailureDisposition::kFinal, code, message, std::move(outcome));
  }
  // Not known. Always allowed, never wrong.
  static WorkResult Unknown(const std::string& code, const std::string& message) {
    return Failed(FailureDisposition::kUnknown, code, message, std::nullopt);
  }

  // nullptr if it is the other.
  const Outcome* outcome() const { return std::get_if<Outcome>(&value_); }
  const Failure* failure() const { return std::get_if<Failure>(&value_); }

 private:
  explicit WorkResult(Outcome outcome) : value_(std::move(outcome)) {}
  explicit WorkResult(Failure failure) : value_(std::move(failure)) {}
  // Cuts the words, so that this call shows them as every later one will.
  static WorkResult Failed(FailureDisposition disposition, const std::string& code,
                           const std::string& message, std::optional<Outcome> outcome);

  std::variant<Outcome, Failure> value_;
};

// How the attempt before this one ended.
struct PreviousAttempt {
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point start_time;
  std::chrono::system_clock::time_point lease_expire_time;
  // What it reported: kNotApplied or kUnknown. Absent: its lease ran out, nothing is known.
  std::optional<Failure> failure;
};

// Why a call came to nothing. The names are the same in the clients of all languages.
enum class ErrorKind {
  // A field is wrong; `violations` names it. A mistake in the program.
  kInvalidField,
  // The key is in use for another request. A new request needs a new key.
  kKeyReused,
  // The attempt is over, a newer one may have the work.
  kLeaseLost,
  // This attempt recorded something else before; the first stays.
  kOutcomeConflict,
  // An attempt ended unknown and nobody may start another. Never go round it with another key.
  kNeedsResolution,
  // Nothing is known about the key.
  kRecordNotFound,
  // No or bad credentials.
  kUnauthenticated,
  // Not this caller's merchant or right.
  kPermissionDenied,
  // The merchant is over its rate; retry_after says how long to wait.
  kRateLimited,
  // The request is over what the server takes; send a Fingerprint instead of the Payload.
  kRequestTooLarge,
  // The service, or its database, cannot be reached.
  kUnavailable,
  // The service did not answer in time, or the caller's deadline passed.
  kDeadlineExceeded,
  // The caller cancelled.
  kCancelled,
  // The work has ended, and what it came to is not recorded (or not yet: see still_recording).
  kOutcomeNotRecorded,
  // The service failed, or gave an answer that this client does not understand.
  kInternal,
};

// The name without its k: "KeyReused".
const char* ErrorKindName(ErrorKind kind);

// An operation that ended without an answer.
//
// The one thing to look at first is `work`: if it is empty, `fn` did not run, and nothing happened
// by this call. If it is there, `fn` did run, and this is what it came to, although the record
// could not be made of it.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  // For people.
  std::string message;
  // The server's word, such as "STORE_UNAVAILABLE"; empty when it gave none.
  std::string reason;
  // gRPC's status code; 0 when no call failed.
  int grpc_code = 0;
  std::vector<FieldViolation> violations;
  // What the server adds to the reason: for KEY_REUSED the record's id, state and creation.
  std::map<std::string, std::string> metadata;
  // How long to wait before another try; absent where waiting does not help or nothing is known.
  std::optional<std::chrono::milliseconds> retry_after;

  // What `fn` came to, if it ran.
  std::optional<WorkResult> work;
  // What `fn` threw, if it did.
  std::exception_ptr exception;
  // Only with kOutcomeNotRecorded: the caller's deadline passed or it cancelled, and the record is
  // still being made in the background.
  bool still_recording = false;
};

// This call did the work, and its outcome is recorded.
struct Completed {
  Outcome outcome;
  // True: the outcome's body was too large for the server; its size and digest are recorded.
  bool recorded_without_body = false;
  std::string record_id;
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point finish_time;
};

// This call did the work, it failed, and that is recorded.
struct Failed {
  Failure failure;
  // What `fn` threw, if it did.
  std::exception_ptr exception;
  // As in Completed, for the failure's outcome.
  bool recorded_without_body = false;
  std::string record_id;
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point finish_time;
};

// The work was done before, `fn` did not run: the answer that was recorded then.
struct Replayed {
  // The failure's disposition is kFinal.
  std::variant<Outcome, Failure> answer;
  std::string record_id;
  // Of the attempt that did it.
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point start_time;
  std::chrono::system_clock::time_point finish_time;
};

// Somebody else is at it, `fn` did not run. Over HTTP: 409 with Retry-After.
struct InProgress {
  std::chrono::milliseconds retry_after{0};
  std::chrono::milliseconds lease_remaining{0};
  std::string record_id;
  int32_t attempt_number = 0;
  std::chrono::system_clock::time_point start_time;
};

// The service was away and this call did the work without it, as OnUnavailable::kRunUnprotected
// says. Nothing is recorded: a repeat of the call does the work again.
struct Unprotected {
  WorkResult work = WorkResult::Unknown("", "");
  // What `fn` threw, if it did.
  std::exception_ptr exception;
  // Why the service was not there.
  Error error;
};

using RunResult = std::variant<Completed, Replayed, InProgress, Failed, Unprotected, Error>;

// The outcome, whether this call did the work, did it unprotected, or it was replayed: for those to
// whom that makes no difference. nullptr for everything else, final failures included. Lives as
// long as `result`.
const Outcome* OutcomeOf(const RunResult& result);

enum class RecordState { kInProgress, kCompleted, kFailed, kReleased, kAbandoned };

// What Lookup shows of a key.
struct Record {
  std::string record_id;
  std::string operation;
  RecordState state = RecordState::kInProgress;
  // Past its retention: the next call starts anew.
  bool expired = false;
  std::chrono::system_clock::time_point create_time;
  std::chrono::system_clock::time_point start_time;
  std::optional<std::chrono::system_clock::time_point> finish_time;
  // Absent while the record is not settled: such a record does not expire.
  std::optional<std::chrono::system_clock::time_point> expire_time;
  OnLeaseExpiry on_lease_expiry = OnLeaseExpiry::kTakeOver;
  int32_t attempt_number = 0;
  int32_t unknown_attempts = 0;
  int64_t fencing_token = 0;
  std::string downstream_key;
  std::map<std::string, std::string> labels;
  // Its body only if asked for; size and digest whenever there was a body.
  std::optional<Outcome> outcome;
  std::optional<Failure> failure;
  std::optional<PreviousAttempt> previous_attempt;
};

using LookupResult = std::variant<Record, Error>;

// A text that a helper made, or the kInvalidField of its arguments.
using TextResult = std::variant<std::string, Error>;

}  // namespace idempotency::client
