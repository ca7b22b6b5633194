// `idempotencyd migrate up | status | print`. Each returns the process's exit status.
#pragma once

#include "server/app/exit_code.h"
#include "server/app/options.h"
#include "server/app/settings.h"

namespace idempotency {

// Brings the schema to this version and grants the service's rights, if asked to. kSchemaMismatch
// when the database's migrations are not this program's.
ExitCode RunMigrateUp(const Settings& settings, const MigrateArguments& arguments);

// Lists the migrations. kOk when all are applied, kSchemaPending when some are not, kSchemaMismatch
// as above.
ExitCode RunMigrateStatus(const Settings& settings);

// Prints the migrations as a script.
ExitCode RunMigratePrint(const MigrateArguments& arguments);

}  // namespace idempotency
