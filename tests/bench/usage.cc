#include "tests/bench/usage.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace idempotency::bench {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The fields of /proc/PID/stat from the third (state) on; the second, the name, may hold spaces and
// brackets.
std::vector<std::string> StatFields(pid_t pid) {
  const std::string text = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > text.size()) return {};
  return absl::StrSplit(text.substr(name_end + 2), ' ');
}

int64_t Number(const std::vector<std::string>& fields, size_t place) {
  int64_t number = 0;
  if (place >= fields.size() || !absl::SimpleAtoi(fields[place], &number)) return 0;
  return number;
}

// "Name:   123 kB" of a file of such lines, in bytes.
int64_t KibibytesLine(const std::string& text, const std::string& name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    return Number(words, 1) * 1024;
  }
  return 0;
}

}  // namespace

std::vector<pid_t> ProcessTree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    children.emplace(static_cast<pid_t>(Number(StatFields(pid), 1)), pid);
  }
  if (StatFields(root).empty()) return {};
  std::vector<pid_t> tree = {root};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto [first, last] = children.equal_range(tree[i]);
    for (auto child = first; child != last; ++child) tree.push_back(child->second);
  }
  return tree;
}

double CpuSecondsOf(pid_t root) {
  int64_t ticks = 0;
  for (const pid_t pid : ProcessTree(root)) {
    const std::vector<std::string> fields = StatFields(pid);
    // utime, stime, cutime, cstime.
    for (size_t place = 11; place <= 14; ++place) ticks += Number(fields, place);
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double CpuSecondsOfMachine() {
  const std::string text = ReadFile("/proc/stat");
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(0, text.find('\n')), ' ', absl::SkipEmpty());
  // user, nice, system.
  const int64_t ticks = Number(words, 1) + Number(words, 2) + Number(words, 3);
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int64_t PeakResidentBytes(pid_t pid) {
  return KibibytesLine(ReadFile(absl::StrCat("/proc/", pid, "/status")), "VmHWM:");
}

int64_t ProportionalBytes(pid_t root) {
  int64_t bytes = 0;
  for (const pid_t pid : ProcessTree(root)) {
    bytes += KibibytesLine(ReadFile(absl::StrCat("/proc/", pid, "/smaps_rollup")), "Pss:");
  }
  return bytes;
}

}  // namespace idempotency::bench
