// What the commands write for a person or a script.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/app/exit_code.h"

namespace idempotency {

// Writes the text to stdout, whole, or fails: a script or a page that is cut off must not look like
// a whole one.
ExitCode Print(const std::string& text);

// Writes the reason to stderr. Returns kFailure.
ExitCode Fail(const absl::Status& status);

}  // namespace idempotency
