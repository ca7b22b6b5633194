// The command line: `idempotencyd serve | dev | migrate | version`, each setting also from the
// environment.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "server/app/settings.h"

namespace idempotency {

enum class Command { kServe, kDev, kMigrate, kVersion };

struct CommandLine {
  Command command = Command::kVersion;
  Settings settings;
  DevSettings dev;
};

// Instead of running: something to print, and the exit status (0 after --help, 2 after a mistake).
struct ExitText {
  int status = 0;
  std::string text;
};

// `arguments` without the program's name. A setting's flag is its name with dashes
// (--queue-max-bytes; underscores are taken, too), its variable IDEMPOTENCY_ and the name in
// capitals (IDEMPOTENCY_QUEUE_MAX_BYTES); the flag wins. A message names the flag that is wrong and
// never repeats the database URL.
std::variant<CommandLine, ExitText> ParseCommandLine(const std::vector<std::string>& arguments);

}  // namespace idempotency
