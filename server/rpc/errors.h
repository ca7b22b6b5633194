// Refusals and faults as gRPC statuses: the one place where a code, a reason and their details are
// chosen (docs/errors.md is the table).
//
// Every status carries a google.rpc.Status in its details with an ErrorInfo of the domain
// "idempotency.v1", but DEADLINE_EXCEEDED and CANCELLED, which have no reason. All details of one
// status stay under kMaxErrorDetailBytes. Messages are for people and say what to do; nothing
// internal and nothing that a request held goes into them. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "idempotency/v1/error.pb.h"
#include "server/record/decide.h"
#include "server/record/fault.h"
#include "server/rpc/validate.h"
#include "server/store/store.h"

namespace idempotency {

inline constexpr char kErrorDomain[] = "idempotency.v1";
// The trailer that gRPC's own retries obey, in milliseconds.
inline constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";

// How a call is refused.
struct CallError {
  grpc::Status status;
  // To be sent as kPushbackTrailer, too. Absent where waiting does not help.
  std::optional<absl::Duration> retry_after;
  // As in ErrorInfo; empty without one. For logs.
  absl::string_view reason;
};

// The reason as it stands in ErrorInfo: the enum value's name without its prefix.
absl::string_view ReasonName(v1::ErrorReason reason);

// REQUIRES: violations is not empty. Violations that would take the details past their bound are
// left out, from the end.
CallError InvalidFields(const Violations& violations);
// The message could not be parsed, or a string in it is not UTF-8.
CallError UnparsableMessage();

// REQUIRES: the verdict is kKeyReused, kLeaseLost or kNeedsResolution.
CallError BeginRefused(const BeginResult& result, int32_t given_fingerprint_scheme,
                       const Policy& policy);
// REQUIRES: the verdict is none of kRecorded, kAlreadyRecorded and kRenewed.
CallError OwnerRefused(OwnerVerdict verdict);
CallError RecordNotFound();

CallError CredentialsMissing();
CallError CredentialsInvalid();
// The same bytes whether or not there is such a merchant or record.
CallError MerchantForbidden();
// The merchant has used up its rate: a token will be there after `retry_after`.
CallError MerchantRateLimited(absl::Duration retry_after);
// The merchant has too many calls in flight; nobody knows when one of them is answered.
CallError MerchantHasTooManyCalls();

// The span and up to as much again, so that callers refused together do not come back together.
// At least a millisecond, which is what kPushbackTrailer can tell.
absl::Duration Jittered(absl::Duration span);

// `request_id` is shown with kInternal alone: it names the log line that says more.
CallError FaultError(Fault fault, absl::string_view request_id);

}  // namespace idempotency
