// The one table of settings. A new setting is a field of Settings and a row here; its flag, its
// variable, its place in the configuration file, the help, the checks and the docs page follow.
#pragma once

#include <vector>

#include "server/app/setting_row.h"
#include "server/app/settings.h"

namespace idempotency {

// The rows that the parts of the program know by name.
inline constexpr char kConfigSetting[] = "config";
inline constexpr char kDatabaseUrlSetting[] = "database.url";
inline constexpr char kListenSetting[] = "listen";
inline constexpr char kUnsafeTestBoundsSetting[] = "unsafe_test_bounds";

// `settings` must outlive the table, and hold the defaults when their text is wanted.
std::vector<SettingRow> SettingTable(Settings* settings);

// What `dev` runs with when nothing is said; other commands: Settings().
Settings DevDefaults();

}  // namespace idempotency
