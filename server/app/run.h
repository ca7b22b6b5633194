// The commands but migrate_commands.h's. Each returns the process's exit status: a failure was
// printed to stderr, and what is printed to stdout is complete when it returns kOk.
#pragma once

#include <vector>

#include "server/app/config_view.h"
#include "server/app/exit_code.h"
#include "server/app/options.h"
#include "server/app/settings.h"
#include "server/app/stop_signal.h"

namespace idempotency {

// Runs a replica until a stop signal. Starts also while the database is away. `effective` is what
// the replica shows of its settings.
ExitCode RunServe(const Settings& settings, const std::vector<EffectiveSetting>& effective,
                  StopSignal* stop);

// Runs a replica on a private PostgreSQL until a stop signal, and prints lines to paste to stdout.
ExitCode RunDev(Settings settings, const std::vector<EffectiveSetting>& effective,
                const DevSettings& dev, StopSignal* stop);

// Asks whether the replica serves.
ExitCode RunHealthcheck(const HealthcheckArguments& arguments);

// Prints the effective settings.
ExitCode RunConfigPrint(const std::vector<EffectiveSetting>& effective, bool json);

// Says that the configuration is valid: the command line was, or this is not called.
ExitCode RunConfigValidate();

// Prints docs/configuration.md.
ExitCode RunConfigDocs();

ExitCode RunVersion();

}  // namespace idempotency
