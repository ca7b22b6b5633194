// The mistakes in a call that can be seen without the service. Internal.
#pragma once

#include <optional>
#include <vector>

#include "idempotency/client/client.h"
#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

// kInvalidField that names them all, or nullopt: the rest is the service's to judge.
std::optional<Error> FaultOf(const Key& key, const Request& request, OnLeaseExpiry on_lease_expiry,
                             const Work& fn, const RunOptions& options);
// Of a Lookup.
std::optional<Error> FaultOf(const Key& key);
// Of the Client: every call of it.
std::optional<Error> FaultOf(const ClientOptions& options);

// REQUIRES: there are violations.
Error InvalidField(std::vector<FieldViolation> violations);

}  // namespace idempotency::client
