// The command line: which command runs, on which configuration.
//
//   idempotencyd serve | dev | migrate [up|status|print] | healthcheck | config print|validate|docs
//   |
//                version
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/app/config_view.h"
#include "server/app/configuration.h"
#include "server/app/settings.h"

namespace idempotency {

enum class Command {
  kServe,
  kDev,
  kMigrateUp,
  kMigrateStatus,
  kMigratePrint,
  kHealthcheck,
  kConfigPrint,
  kConfigValidate,
  kConfigDocs,
  kVersion,
};

struct MigrateArguments {
  // The role that gets what the service needs; empty: none.
  std::string grant_to;
  // `print`: the first migration.
  int from = 1;
};

struct HealthcheckArguments {
  // host:port that can be dialled.
  std::string address;
  absl::Duration timeout = absl::Seconds(3);
};

struct CommandLine {
  Command command = Command::kVersion;
  Settings settings;
  std::vector<EffectiveSetting> effective;
  DevSettings dev;
  MigrateArguments migrate;
  HealthcheckArguments healthcheck;
  // `config print`: JSON instead of lines.
  bool json = false;
};

// Instead of running: something to print, and the exit status: 0 after --help, to stdout; kUsage
// after a mistake, to stderr.
struct ExitText {
  int status = 0;
  std::string text;
};

// `arguments` without the program's name. A setting's flag is its name with dashes
// (--queue-max-bytes; underscores are taken, too); the last of several counts. A message names what
// is wrong, with where it came from, and never repeats what may be a secret.
std::variant<CommandLine, ExitText> ParseCommandLine(const std::vector<std::string>& arguments,
                                                     const Environment& environment);

}  // namespace idempotency
