// Names for attempts.
#pragma once

#include <optional>
#include <string>

namespace idempotency::client {

// A UUIDv4 from the system's random source: whoever could guess it could complete the attempt in
// its owner's place. nullopt if the system gives no random bytes.
std::optional<std::string> NewAttemptId();

}  // namespace idempotency::client
