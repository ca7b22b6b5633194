#include "server/app/postgres_installation.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/app/child_process.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

constexpr char kDebianDirectory[] = "/usr/lib/postgresql";
constexpr absl::Duration kProgramTimeout = absl::Seconds(20);

bool HoldsServer(const std::string& directory) {
  return access((directory + "/postgres").c_str(), X_OK) == 0 &&
         access((directory + "/initdb").c_str(), X_OK) == 0;
}

// "postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)" and "… 18beta1" give 15 and 18.
absl::StatusOr<PostgresInstallation> AskVersion(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string answer,
                   RunAndRead({directory + "/postgres", "--version"}, kProgramTimeout));
  const std::vector<std::string> words =
      absl::StrSplit(answer, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int major = 0;
  if (words.size() >= 3) {
    const auto end = std::find_if_not(words[2].begin(), words[2].end(), absl::ascii_isdigit);
    if (!absl::SimpleAtoi(std::string(words[2].begin(), end), &major)) major = 0;
  }
  if (major == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, "/postgres --version printed \"", answer, "\""));
  }
  return PostgresInstallation{directory, major};
}

std::vector<std::string> DebianCandidates() {
  std::vector<std::pair<int, std::string>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kDebianDirectory, error), end;
       !error && entry != end; entry.increment(error)) {
    int major = 0;
    if (absl::SimpleAtoi(entry->path().filename().string(), &major)) {
      found.emplace_back(major, entry->path().string() + "/bin");
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> directories;
  for (const auto& [major, directory] : found) directories.push_back(directory);
  return directories;
}

// What `pg_config --bindir` prints, for the first pg_config in PATH.
std::vector<std::string> PgConfigCandidates() {
  const char* path = getenv("PATH");
  for (const std::string& directory :
       std::vector<std::string>(absl::StrSplit(path != nullptr ? path : "", ':'))) {
    const std::string program = directory + "/pg_config";
    if (directory.empty() || directory[0] != '/' || access(program.c_str(), X_OK) != 0) continue;
    const absl::StatusOr<std::string> answer = RunAndRead({program, "--bindir"}, kProgramTimeout);
    if (answer.ok()) return {std::string(absl::StripAsciiWhitespace(*answer))};
  }
  return {};
}

}  // namespace

absl::StatusOr<PostgresInstallation> FindPostgres(const std::string& bin_directory,
                                                  int major_version) {
  if (!bin_directory.empty()) {
    const std::string directory = std::filesystem::absolute(bin_directory).string();
    if (!HoldsServer(directory)) {
      return absl::FailedPreconditionError(
          absl::StrCat("no PostgreSQL server programs (initdb, postgres) in ", directory));
    }
    return AskVersion(directory);
  }
  std::vector<std::string> candidates = DebianCandidates();
  for (std::string& directory : PgConfigCandidates()) candidates.push_back(std::move(directory));
  for (const std::string& directory : candidates) {
    if (!HoldsServer(directory)) continue;
    const absl::StatusOr<PostgresInstallation> found = AskVersion(directory);
    if (!found.ok()) continue;
    if (major_version == 0 ? found->major_version >= kOldestPostgresMajor
                           : found->major_version == major_version) {
      return *found;
    }
  }
  const int wanted = major_version == 0 ? kOldestPostgresMajor : major_version;
  return absl::FailedPreconditionError(
      absl::StrCat("PostgreSQL ", wanted, major_version == 0 ? " or later" : "",
                   " server not installed (looked in ", kDebianDirectory,
                   "/*/bin and asked pg_config): apt-get install postgresql-", wanted));
}

}  // namespace idempotency
