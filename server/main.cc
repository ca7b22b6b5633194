// idempotencyd: reads the command line and runs the subcommand.
#include <signal.h>
#include <stdlib.h>

#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "server/app/options.h"
#include "server/app/run.h"
#include "server/app/stop_signal.h"

namespace idempotency {
namespace {

int Main(const std::vector<std::string>& arguments) {
  const std::variant<CommandLine, ExitText> parsed = ParseCommandLine(arguments);
  if (const auto* exit_text = std::get_if<ExitText>(&parsed)) {
    (exit_text->status == 0 ? std::cout : std::cerr) << exit_text->text << std::flush;
    return exit_text->status;
  }
  const CommandLine& line = std::get<CommandLine>(parsed);
  switch (line.command) {
    case Command::kVersion:
      return RunVersion();
    case Command::kMigrate:
      return RunMigrate(line.settings);
    case Command::kServe: {
      StopSignal stop;
      return RunServe(line.settings, &stop);
    }
    case Command::kDev: {
      StopSignal stop;
      return RunDev(line.settings, line.dev, &stop);
    }
  }
  return 2;
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
