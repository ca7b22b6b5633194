// idempotencyd: reads the command line and runs the command.
#include <signal.h>
#include <stdlib.h>

#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "server/app/configuration.h"
#include "server/app/exit_code.h"
#include "server/app/migrate_commands.h"
#include "server/app/options.h"
#include "server/app/output.h"
#include "server/app/run.h"
#include "server/app/stop_signal.h"

namespace idempotency {
namespace {

ExitCode Run(const CommandLine& line) {
  switch (line.command) {
    case Command::kServe: {
      StopSignal stop;
      return RunServe(line.settings, line.effective, &stop);
    }
    case Command::kDev: {
      StopSignal stop;
      return RunDev(line.settings, line.effective, line.dev, &stop);
    }
    case Command::kMigrateUp:
      return RunMigrateUp(line.settings, line.migrate);
    case Command::kMigrateStatus:
      return RunMigrateStatus(line.settings);
    case Command::kMigratePrint:
      return RunMigratePrint(line.migrate);
    case Command::kHealthcheck:
      return RunHealthcheck(line.healthcheck);
    case Command::kConfigPrint:
      return RunConfigPrint(line.effective, line.json);
    case Command::kConfigValidate:
      return RunConfigValidate();
    case Command::kConfigDocs:
      return RunConfigDocs();
    case Command::kVersion:
      return RunVersion();
  }
  return ExitCode::kUsage;
}

int Main(const std::vector<std::string>& arguments) {
  const std::variant<CommandLine, ExitText> parsed =
      ParseCommandLine(arguments, ProcessEnvironment());
  if (const auto* exit_text = std::get_if<ExitText>(&parsed)) {
    if (exit_text->status != 0) {
      std::cerr << exit_text->text << std::flush;
      return exit_text->status;
    }
    return static_cast<int>(Print(exit_text->text));
  }
  return static_cast<int>(Run(std::get<CommandLine>(parsed)));
}

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  // A reader of our output that goes away is no reason to end.
  signal(SIGPIPE, SIG_IGN);
  // gRPC's own lines are no JSON, and callers decide how many there are.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return idempotency::Main({argv + 1, argv + argc});
}
