// `idempotencyd healthcheck`: what a container's probe runs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace idempotency {

// Asks the replica at `address` (host:port) by grpc.health.v1 whether it serves. Returns within
// `timeout`. kUnavailable, with the reason, when it does not, cannot be reached or does not answer.
absl::Status CheckHealth(const std::string& address, absl::Duration timeout);

}  // namespace idempotency
