#include "server/app/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/app/file.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

constexpr char kLockFile[] = "lock";
constexpr char kEphemeralPrefix[] = "idempotencyd-ephemeral-";
// Younger directories may belong to a process that has made its directory and not locked it yet.
constexpr std::chrono::minutes kAbandonedAge{10};

// As mkdir -p. Directories that exist stay as they are; new ones get `mode` whatever the umask.
absl::Status MakeDirectories(const fs::path& path, mode_t mode) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  if (path.has_parent_path() && path.parent_path() != path) {
    RETURN_IF_ERROR(MakeDirectories(path.parent_path(), mode));
  }
  if (mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST && fs::is_directory(path, error)) return absl::OkStatus();
    return SystemError("make the directory", path.string());
  }
  if (chmod(path.c_str(), mode) != 0) return SystemError("set the mode of", path.string());
  return absl::OkStatus();
}

// Returns the descriptor that holds the lock.
absl::StatusOr<int> LockDirectory(const std::string& path) {
  const std::string lock_path = absl::StrCat(path, "/", kLockFile);
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SystemError("open", lock_path);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(fd);
    if (error != EWOULDBLOCK) {
      return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", lock_path));
    }
    const std::string content = ReadFile(lock_path);
    const absl::string_view holder = absl::StripAsciiWhitespace(content);
    return absl::FailedPreconditionError(
        absl::StrCat("another idempotencyd", holder.empty() ? "" : " (process ", holder,
                     holder.empty() ? "" : ")", " uses ", path,
                     ": stop it first, or choose another data directory"));
  }
  const std::string content = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    const absl::Status status = SystemError("write", lock_path);
    close(fd);
    return status;
  }
  return fd;
}

// A process killed with -9 cannot remove its directory, so the next one does.
void RemoveAbandoned(const fs::path& parent) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat info {};
    if (!absl::StartsWith(entry->path().filename().string(), kEphemeralPrefix) ||
        lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
      continue;
    }
    std::error_code ignored;
    if (now - fs::last_write_time(entry->path(), ignored) < kAbandonedAge || ignored) continue;
    const absl::StatusOr<int> lock_fd = LockDirectory(path);
    if (!lock_fd.ok()) continue;
    fs::remove_all(path, ignored);
    close(*lock_fd);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(const std::string& path,
                                                                     bool shared_path) {
  const std::string absolute = fs::absolute(path).lexically_normal().string();
  RETURN_IF_ERROR(MakeDirectories(absolute, shared_path ? 0711 : 0700));
  ASSIGN_OR_RETURN(const int lock_fd, LockDirectory(absolute));
  return std::unique_ptr<StateDirectory>(
      new StateDirectory(absolute, lock_fd, /*ephemeral=*/false));
}

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::OpenEphemeral(bool shared_path) {
  const char* tmpdir = getenv("TMPDIR");
  const fs::path parent = fs::absolute(tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp");
  RemoveAbandoned(parent);
  std::string path = (parent / (std::string(kEphemeralPrefix) + "XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) return SystemError("make the directory", path);
  absl::StatusOr<int> lock_fd = LockDirectory(path);
  if (!lock_fd.ok()) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
    return lock_fd.status();
  }
  std::unique_ptr<StateDirectory> directory(new StateDirectory(path, *lock_fd, /*ephemeral=*/true));
  if (shared_path && chmod(path.c_str(), 0711) != 0) return SystemError("set the mode of", path);
  return directory;
}

StateDirectory::StateDirectory(std::string path, int lock_fd, bool ephemeral)
    : path_(std::move(path)), lock_fd_(lock_fd), ephemeral_(ephemeral), owner_(getpid()) {}

StateDirectory::~StateDirectory() {
  if (ephemeral_ && owner_ == getpid()) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  close(lock_fd_);
}

std::string StateDirectory::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

absl::Status StateDirectory::Write(absl::string_view name, absl::string_view content) const {
  const std::string path = File(name);
  const std::string new_path = path + ".new";
  const int fd =
      open(new_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SystemError("open", new_path);
  {
    const absl::Cleanup close_fd = [fd] { close(fd); };
    if (fchmod(fd, 0600) != 0 ||
        write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
        fsync(fd) != 0) {
      return SystemError("write", new_path);
    }
  }
  if (rename(new_path.c_str(), path.c_str()) != 0) return SystemError("rename", new_path);
  return Sync();
}

std::string StateDirectory::Read(absl::string_view name) const { return ReadFile(File(name)); }

absl::Status StateDirectory::Sync() const {
  const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path_);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  if (fsync(fd) != 0) return SystemError("sync", path_);
  return absl::OkStatus();
}

}  // namespace idempotency
