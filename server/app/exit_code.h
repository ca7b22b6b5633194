// What the process says with its exit status: the only list, also of the help and of
// docs/configuration.md.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace idempotency {

enum class ExitCode {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kSchemaPending = 3,
  kSchemaMismatch = 4,
  kSecondInterrupt = 130,
  kSecondTerminate = 143,
};

struct ExitCodeText {
  ExitCode code;
  absl::string_view meaning;
};

// Every code once, in order.
absl::Span<const ExitCodeText> ExitCodes();

// For the end of --help.
std::string ExitCodesHelp();

}  // namespace idempotency
