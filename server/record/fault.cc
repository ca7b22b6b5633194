#include "server/record/fault.h"

#include "absl/strings/cord.h"

namespace idempotency {
namespace {

constexpr char kFaultUrl[] = "idempotency/fault";

absl::StatusCode CodeOf(Fault fault) {
  switch (fault) {
    case Fault::kStoreUnavailable:
    case Fault::kNotDurable:
    case Fault::kOverloaded:
    case Fault::kDraining:
      return absl::StatusCode::kUnavailable;
    case Fault::kSchemaIncompatible:
      return absl::StatusCode::kFailedPrecondition;
    case Fault::kLockTimeout:
      return absl::StatusCode::kAborted;
    case Fault::kNotRead:
      return absl::StatusCode::kResourceExhausted;
    case Fault::kCommitUnknown:
      return absl::StatusCode::kUnknown;
    case Fault::kDeadlineExceeded:
      return absl::StatusCode::kDeadlineExceeded;
    case Fault::kCancelled:
      return absl::StatusCode::kCancelled;
    case Fault::kInternal:
      return absl::StatusCode::kInternal;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

absl::Status MakeFault(Fault fault, absl::string_view message) {
  absl::Status status(CodeOf(fault), message);
  const char kind = static_cast<char>(fault);
  status.SetPayload(kFaultUrl, absl::Cord(absl::string_view(&kind, 1)));
  return status;
}

Fault FaultOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kFaultUrl);
  if (!payload.has_value() || payload->size() != 1) return Fault::kInternal;
  return static_cast<Fault>((*payload)[0]);
}

}  // namespace idempotency
