#include "server/app/postmaster_file.h"

#include <errno.h>
#include <sys/shm.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/app/file.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

constexpr char kFileName[] = "/postmaster.pid";

// By its command line, which anybody may read: /proc/PID/cwd and exe are closed to root in a
// container without CAP_SYS_PTRACE. The server's children show another title there.
bool IsServerOn(pid_t pid, const std::string& data_directory) {
  const std::string command_line = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"));
  const std::vector<std::string> words = absl::StrSplit(command_line, '\0');
  if (fs::path(words[0]).filename() != "postgres") return false;
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    std::error_code error;
    if (words[i] == "-D" && fs::equivalent(words[i + 1], data_directory, error)) return true;
  }
  return false;
}

bool SharedMemoryInUse(int id) {
  shmid_ds info = {};
  if (shmctl(id, IPC_STAT, &info) != 0) return errno != EINVAL && errno != EIDRM;
  return info.shm_nattch > 0;
}

}  // namespace

std::optional<PostmasterFile> ReadPostmasterFile(const std::string& data_directory) {
  // Lines: process id, data directory, start time, port, socket directory, address, memory key and
  // id, status.
  const std::vector<std::string> lines = absl::StrSplit(ReadFile(data_directory + kFileName), '\n');
  PostmasterFile file;
  if (lines.size() < 4 || !absl::SimpleAtoi(lines[0], &file.pid) || file.pid <= 0 ||
      !absl::SimpleAtoi(lines[3], &file.port)) {
    return std::nullopt;
  }
  if (lines.size() >= 7) {
    const std::vector<std::string> numbers = absl::StrSplit(lines[6], ' ', absl::SkipEmpty());
    int id = 0;
    if (numbers.size() == 2 && absl::SimpleAtoi(numbers[1], &id)) file.shared_memory_id = id;
  }
  return file;
}

std::unique_ptr<Process> FindPostmaster(const PostmasterFile& file,
                                        const std::string& data_directory) {
  // The handle first: what is then read under the id is about the process that the handle holds, if
  // it still runs.
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Find(file.pid);
  if (!process.ok() || !IsServerOn(file.pid, data_directory) || !(*process)->Running()) {
    return nullptr;
  }
  return *std::move(process);
}

void RemoveMisleadingPostmasterFile(const PostmasterFile& file, const std::string& data_directory) {
  const absl::StatusOr<std::unique_ptr<Process>> process = Process::Find(file.pid);
  if (!process.ok() || IsServerOn(file.pid, data_directory)) return;
  if (file.shared_memory_id.has_value() && SharedMemoryInUse(*file.shared_memory_id)) return;
  std::error_code ignored;
  fs::remove(data_directory + kFileName, ignored);
}

}  // namespace idempotency
