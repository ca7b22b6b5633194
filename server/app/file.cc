#include "server/app/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

absl::Status Unreadable() {
  const int error = errno;
  return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", strerror(error)));
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<std::string> ReadBounded(const std::string& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Unreadable();
  const absl::Cleanup close_file = [fd] { close(fd); };
  std::string content;
  char buffer[4096];
  for (;;) {
    const size_t room = max_bytes + 1 - content.size();
    const ssize_t got = read(fd, buffer, std::min(room, sizeof(buffer)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable();
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
    if (content.size() > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("holds more than ", max_bytes, " bytes, the most that is read"));
    }
  }
}

absl::Status SystemError(absl::string_view what, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace idempotency
