// Why a call could not be decided. A refusal (KEY_REUSED, LEASE_LOST …) is a verdict, not a fault.
//
// A fault travels as an absl::Status that carries its kind; the message is for logs and may name
// tables, so rpc/ translates the kind alone.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace idempotency {

enum class Fault {
  // The call had no effect.
  kStoreUnavailable,    // database away, failing over, read-only, or a row that keeps vanishing
  kSchemaIncompatible,  // the schema's version is outside of this server's range
  kLockTimeout,         // another transaction holds the row; between store and engine only
  kNotDurable,          // commits would be answered before they are safe; from Store::Check only
  kNotRead,             // the batch's other answers filled its room; between store and engine only
  kOverloaded,          // a queue or cap is full
  kDraining,            // this replica is shutting down
  // The call may have had an effect: the same call is to be repeated.
  kCommitUnknown,
  kDeadlineExceeded,
  kCancelled,
  // A bug, or an item that the database refuses.
  kInternal,
};

absl::Status MakeFault(Fault fault, absl::string_view message);
// REQUIRES: !status.ok(). A status not made by MakeFault is kInternal.
Fault FaultOf(const absl::Status& status);

}  // namespace idempotency
