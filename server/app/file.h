// Small things about files: of the private PostgreSQL, and those that settings name.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency {

// The file's whole content; empty when it cannot be read. For files that are known to be small.
std::string ReadFile(const std::string& path);

// The whole content of a file that somebody else named: a regular file, or a pipe. kInvalidArgument
// says why it cannot be read, or that it holds more than `max_bytes`; it does not repeat the path.
absl::StatusOr<std::string> ReadBounded(const std::string& path, size_t max_bytes);

// "cannot <what> <path>" and why, for a system call that has just failed: reads errno.
absl::Status SystemError(absl::string_view what, const std::string& path);

}  // namespace idempotency
