#include "server/app/exit_code.h"

#include "absl/strings/str_format.h"

namespace idempotency {

absl::Span<const ExitCodeText> ExitCodes() {
  static constexpr ExitCodeText kTexts[] = {
      {ExitCode::kOk,
       "done: drained after a signal, up to date, valid, serving, or what was asked for was "
       "printed"},
      {ExitCode::kFailure,
       "it failed while running: the database cannot be reached, the port is taken, output cannot "
       "be written; healthcheck: not serving, or no answer in time"},
      {ExitCode::kUsage, "the command line or the configuration is wrong; nothing was started"},
      {ExitCode::kSchemaPending, "migrate status: migrations are to be applied"},
      {ExitCode::kSchemaMismatch,
       "migrate: the database's migrations are not this program's: another content, or newer and "
       "not for servers of this version"},
      {ExitCode::kSecondInterrupt, "a second signal, SIGINT, ended it at once"},
      {ExitCode::kSecondTerminate, "a second signal, SIGTERM, ended it at once"},
  };
  return kTexts;
}

std::string ExitCodesHelp() {
  std::string help = "Exit status:\n";
  for (const ExitCodeText& text : ExitCodes()) {
    absl::StrAppendFormat(&help, "  %3d  %s\n", static_cast<int>(text.code), text.meaning);
  }
  return help;
}

}  // namespace idempotency
