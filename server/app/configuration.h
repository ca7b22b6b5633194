// Where settings come from: flags, then the environment, then the configuration file, then the
// defaults. Fills a Settings by the table and says of each value where it came from.
//
// Every source is read whole, whichever command runs, so that a mistake is found by the first one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/app/config_view.h"
#include "server/app/settings.h"

namespace idempotency {

// Names and values of environment variables.
using Environment = std::map<std::string, std::string>;
// The process's.
Environment ProcessEnvironment();

struct Configuration {
  Settings settings;
  // Every row of the table, in its order.
  std::vector<EffectiveSetting> effective;
  // One for each wrong value and unknown name: setting, source, and what is allowed. Never a value
  // of a secret. `settings` is not to be used when there are any.
  std::vector<std::string> mistakes;
};

// `defaults` holds what counts when nothing is said; `flags` texts by the settings' dotted names.
//
// An empty variable counts as not set; an empty flag or text in the file is a mistake. A variable
// IDEMPOTENCY_… of no setting is one, too, unless Kubernetes makes it for a Service of such a name.
Configuration Configure(const Settings& defaults, const std::map<std::string, std::string>& flags,
                        const Environment& environment);

}  // namespace idempotency
