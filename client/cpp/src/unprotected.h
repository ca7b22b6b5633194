// Running `fn` without the service. Internal.
#pragma once

#include "idempotency/client/runner.h"
#include "idempotency/client/types.h"

namespace idempotency::client {

struct Core;

// Without stop and stop_reason.
Attempt UnprotectedAttempt();

// Counts the run, writes the warning and calls the hook.
void TellUnprotected(Core* core, const Key& key, const Error& error);

}  // namespace idempotency::client
