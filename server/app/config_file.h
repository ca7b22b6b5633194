// The configuration file: TOML, read into names and texts. What the names mean, and whether the
// values are good, is configuration.h's business.
//
//   listen = "0.0.0.0:50051"
//   [queue]
//   max_bytes = 134217728
//
// No message repeats a value: it may be a secret.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency {

inline constexpr size_t kMaxConfigFileBytes = size_t{1024} * 1024;

struct FileEntry {
  enum class Kind { kString, kInteger, kBoolean, kOther };
  // Dotted: `max_bytes` in the table `queue` is queue.max_bytes. A table without a value in it is
  // an entry of kOther.
  std::string name;
  Kind kind = Kind::kOther;
  // As on a command line: the string's content, the integer's digits, true or false.
  std::string text;
  int line = 0;
};

// Of a name in the file, or an empty text when it may be something else than a name: a secret that
// slipped to its place.
std::string ShownName(absl::string_view name);

// Entries in order of their lines. kInvalidArgument when the file cannot be read, is larger than
// kMaxConfigFileBytes, is no UTF-8, is no TOML or names something twice: the message has file and
// line, and the name where there is one.
absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path);

// The same of a file's content; `path` is for messages only.
absl::StatusOr<std::vector<FileEntry>> ParseConfigFile(absl::string_view content,
                                                       const std::string& path);

}  // namespace idempotency
