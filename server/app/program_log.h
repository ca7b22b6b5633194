// The file that a program we started prints to, and what to show of it when the program fails.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace idempotency {

// Not thread-safe. Open from construction to destruction, for appending; mode 0600.
class ProgramLog {
 public:
  // A file that has grown over 16 MiB is first renamed to PATH.1, in place of the one before.
  static absl::StatusOr<ProgramLog> Open(const std::string& path);

  ~ProgramLog();
  ProgramLog(ProgramLog&& other) noexcept;
  ProgramLog& operator=(ProgramLog&&) = delete;

  int fd() const { return fd_; }

  // What was written since Open, at most its last 64 KiB.
  std::string Read() const;

  // A sentence that shows the last lines written since Open, or says that there are none.
  std::string Describe() const;

 private:
  ProgramLog(std::string path, int fd, off_t start);

  std::string path_;
  int fd_;
  off_t start_;
};

}  // namespace idempotency
