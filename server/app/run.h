// The subcommands. Each returns the process's exit status: 0, 1 after a failure that was printed to
// stderr.
#pragma once

#include "server/app/settings.h"
#include "server/app/stop_signal.h"

namespace idempotency {

// Runs a replica until a stop signal. Starts also while the database is away.
int RunServe(const Settings& settings, StopSignal* stop);

// Runs a replica on a private PostgreSQL until a stop signal, and prints lines to paste to stdout.
int RunDev(Settings settings, const DevSettings& dev, StopSignal* stop);

// Brings the schema to this version.
int RunMigrate(const Settings& settings);

int RunVersion();

}  // namespace idempotency
