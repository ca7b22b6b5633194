#include "server/ops/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace idempotency {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The fields of /proc/self/stat from the third on: the second, the program's name in parentheses,
// may hold blanks.
std::vector<std::string> StatFields() {
  const std::string stat = ReadAll("/proc/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(absl::string_view(stat).substr(name_end + 1), ' ', absl::SkipEmpty());
}

// Field `number` as proc(5) counts them, from 1.
double Field(const std::vector<std::string>& fields, size_t number) {
  double value = 0;
  if (number < 3 || number - 3 >= fields.size()) return 0;
  return absl::SimpleAtod(fields[number - 3], &value) ? value : 0;
}

// When the machine was booted, in seconds of the Unix epoch.
double BootSeconds() {
  const std::string stat = ReadAll("/proc/stat");
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    double seconds = 0;
    if (absl::StartsWith(line, "btime ") && absl::SimpleAtod(line.substr(6), &seconds)) {
      return seconds;
    }
  }
  return 0;
}

int64_t CountOpenFds() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
  if (directory == nullptr) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count - 1;  // the directory's own
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  const std::vector<std::string> fields = StatFields();
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  stats.cpu_seconds = (Field(fields, 14) + Field(fields, 15)) / ticks_per_second;
  stats.threads = static_cast<int64_t>(Field(fields, 20));
  stats.start_time_seconds = BootSeconds() + Field(fields, 22) / ticks_per_second;
  stats.virtual_bytes = static_cast<int64_t>(Field(fields, 23));
  stats.resident_bytes = static_cast<int64_t>(Field(fields, 24)) * sysconf(_SC_PAGESIZE);
  stats.open_fds = CountOpenFds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    stats.max_fds = static_cast<int64_t>(limit.rlim_cur);
  }
  return stats;
}

}  // namespace idempotency
