// What no single value shows: settings that do not go together, and settings that a command cannot
// do without.
#pragma once

#include <string>
#include <vector>

#include "server/app/configuration.h"
#include "server/app/setting_row.h"

namespace idempotency {

// What `command` (kServeCommand, kDevCommand or kMigrateCommand) cannot run with. Each names the
// settings, where their values come from, and what is allowed.
std::vector<std::string> CheckFor(CommandSet command, const Configuration& configuration);

// The rules about settings that must go together, a sentence each, for the docs page.
std::vector<std::string> ContradictionTexts();

}  // namespace idempotency
