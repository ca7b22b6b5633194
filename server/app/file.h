// Small things about files that more than one part of the private PostgreSQL needs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace idempotency {

// The file's whole content; empty when it cannot be read. For files that are known to be small.
std::string ReadFile(const std::string& path);

// "cannot <what> <path>" and why, for a system call that has just failed: reads errno.
absl::Status SystemError(absl::string_view what, const std::string& path);

}  // namespace idempotency
