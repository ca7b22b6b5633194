#include "server/app/program_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace idempotency {
namespace {

constexpr off_t kRotateBytes = 16 * 1024 * 1024;
constexpr off_t kReadBytes = 64 * 1024;
constexpr size_t kShownLines = 15;

off_t FileSize(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

}  // namespace

absl::StatusOr<ProgramLog> ProgramLog::Open(const std::string& path) {
  if (FileSize(path) > kRotateBytes) rename(path.c_str(), (path + ".1").c_str());
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return ProgramLog(path, fd, FileSize(path));
}

ProgramLog::ProgramLog(std::string path, int fd, off_t start)
    : path_(std::move(path)), fd_(fd), start_(start) {}

ProgramLog::ProgramLog(ProgramLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), start_(other.start_) {}

ProgramLog::~ProgramLog() {
  if (fd_ >= 0) close(fd_);
}

std::string ProgramLog::Read() const {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(std::max(start_, FileSize(path_) - kReadBytes));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string ProgramLog::Describe() const {
  std::vector<std::string> lines = absl::StrSplit(Read(), '\n', absl::SkipWhitespace());
  if (lines.empty()) return absl::StrCat("Nothing was written to ", path_, ".");
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - kShownLines);
  return absl::StrCat("The last lines of ", path_, ":\n  ", absl::StrJoin(lines, "\n  "));
}

}  // namespace idempotency
