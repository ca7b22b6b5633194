// The settings as they are in force: what `idempotencyd config print`, the log's first line and the
// ops port show. Plain values, without a secret in them.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency {

struct EffectiveSetting {
  // Dotted, as in the configuration file: `queue.max_bytes`.
  std::string name;
  // As it would be given. Of a secret only that it is set ("****"); of a database URL all but its
  // passwords. Empty: not set.
  std::string value;
  // "default", "flag --queue-max-bytes", "environment IDEMPOTENCY_QUEUE_MAX_BYTES" or
  // "file PATH:LINE".
  std::string source;
};

// What stands for a secret that is set.
inline constexpr char kMasked[] = "****";
inline constexpr char kDefaultSource[] = "default";

// The setting of that name, null when there is none.
const EffectiveSetting* FindSetting(const std::vector<EffectiveSetting>& settings,
                                    absl::string_view name);
// Whether it was set at all, rather than left at its default.
bool IsGiven(const std::vector<EffectiveSetting>& settings, absl::string_view name);

// Lines of name, value and source for a person.
std::string EffectiveText(const std::vector<EffectiveSetting>& settings);
// {"settings":[{"name":…,"value":…,"source":…}]}, and a newline.
std::string EffectiveJson(const std::vector<EffectiveSetting>& settings);

}  // namespace idempotency
