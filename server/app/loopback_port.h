// Choosing a free TCP port on 127.0.0.1.
#pragma once

#include <optional>

#include "absl/status/statusor.h"

namespace idempotency {

// Whether a server could listen on the port of 127.0.0.1 now. It may be taken a moment later.
bool CanListen(int port);

// A port that was free a moment ago: `preferred` if it is, else a random one below the range from
// which the system takes the ports of outgoing connections. From that range a client's own retry
// could take the port of a server that is just being restarted. Thread-safe. ResourceExhausted when
// there is none.
absl::StatusOr<int> ChooseLoopbackPort(std::optional<int> preferred);

}  // namespace idempotency
