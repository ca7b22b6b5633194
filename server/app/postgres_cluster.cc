#include "server/app/postgres_cluster.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/app/file.h"
#include "server/app/program_log.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kInitdbTimeout = absl::Minutes(2);
// For initdb, which may run as another user than we do; removed at once.
constexpr char kInitialPasswordFile[] = "initial-password";

absl::StatusOr<std::string> RandomPassword() {
  std::string bytes(24, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::ErrnoToStatus(errno, "getrandom");
  }
  return absl::BytesToHexString(bytes);
}

absl::Status RunInitdb(const StateDirectory& state, const ClusterOptions& options,
                       const std::string& program, const std::string& data) {
  std::vector<std::string> argv = {program,
                                   "-D",
                                   data,
                                   "-U",
                                   kClusterSuperuser,
                                   "-E",
                                   "UTF8",
                                   "--locale=C.UTF-8",
                                   "-A",
                                   "scram-sha-256",
                                   "--pwfile=" + state.File(kInitialPasswordFile),
                                   "--no-instructions"};
  if (!options.sync) argv.push_back("--no-sync");
  ASSIGN_OR_RETURN(const ProgramLog log, ProgramLog::Open(state.File(kClusterLogFile)));
  ASSIGN_OR_RETURN(const std::unique_ptr<Process> initdb,
                   Process::Start({.argv = std::move(argv),
                                   .directory = data,
                                   .output_fd = log.fd(),
                                   .user = options.server_user,
                                   .death_signal = SIGKILL}));
  if (!initdb->WaitFor(kInitdbTimeout)) {
    initdb->Signal(SIGKILL);
    initdb->WaitFor(absl::InfiniteDuration());
    return absl::DeadlineExceededError(absl::StrCat(
        "initdb did not end in ", absl::FormatDuration(kInitdbTimeout), ". ", log.Describe()));
  }
  if (initdb->Succeeded()) return absl::OkStatus();
  std::string hint;
  if (options.server_user.has_value() && absl::StrContains(log.Read(), "Permission denied")) {
    hint = absl::StrCat(" Every directory above it must let the user ", options.server_user->name,
                        " pass (chmod o+x), or choose another data directory.");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("initdb failed (", initdb->HowItEnded(), ").", hint, " ", log.Describe()));
}

absl::Status MakeCluster(const StateDirectory& state, const ClusterOptions& options,
                         const PostgresInstallation& installation) {
  const std::string data = state.File(kClusterDataDirectory);
  const std::string new_data = data + ".new";
  const std::string password_path = state.File(kInitialPasswordFile);
  std::error_code error;
  // Left by a process that was killed during initdb. Nothing in it was ever used.
  fs::remove_all(new_data, error);
  if (error) {
    return absl::InternalError(absl::StrCat("cannot remove ", new_data, ": ", error.message()));
  }
  ASSIGN_OR_RETURN(const std::string password, RandomPassword());
  const absl::Cleanup remove_password = [&password_path] { unlink(password_path.c_str()); };
  RETURN_IF_ERROR(state.Write(kInitialPasswordFile, password));
  // Host, port and database may be anything: the file is only ever named for this server.
  RETURN_IF_ERROR(state.Write(kClusterPasswordFile,
                              absl::StrCat("*:*:*:", kClusterSuperuser, ":", password, "\n")));
  if (mkdir(new_data.c_str(), 0700) != 0) return SystemError("make the directory", new_data);
  if (options.server_user.has_value()) {
    for (const std::string& path : {new_data, password_path}) {
      if (chown(path.c_str(), options.server_user->uid, options.server_user->gid) != 0) {
        return SystemError("give away", path);
      }
    }
  }
  RETURN_IF_ERROR(RunInitdb(state, options, installation.Program("initdb"), new_data));
  if (rename(new_data.c_str(), data.c_str()) != 0) return SystemError("rename", new_data);
  return state.Sync();
}

}  // namespace

absl::StatusOr<PostgresInstallation> OpenCluster(const StateDirectory& state,
                                                 const ClusterOptions& options) {
  const std::string data = state.File(kClusterDataDirectory);
  std::error_code error;
  if (!fs::exists(data, error)) {
    ASSIGN_OR_RETURN(PostgresInstallation installation, FindPostgres(options.bin_directory, 0));
    RETURN_IF_ERROR(MakeCluster(state, options, installation));
    return installation;
  }
  int major = 0;
  if (!absl::SimpleAtoi(state.Read(absl::StrCat(kClusterDataDirectory, "/PG_VERSION")), &major)) {
    return absl::FailedPreconditionError(absl::StrCat(
        data, " is no PostgreSQL data directory that can be read here: move it away, or choose",
        " another data directory"));
  }
  if (state.Read(kClusterPasswordFile).empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the password of ", data, " is lost (", state.File(kClusterPasswordFile),
        "): restore that file, or remove the whole directory ", state.path(), " to start anew"));
  }
  ASSIGN_OR_RETURN(PostgresInstallation installation, FindPostgres(options.bin_directory, major));
  if (installation.major_version != major) {
    return absl::FailedPreconditionError(absl::StrCat(
        data, " belongs to PostgreSQL ", major, ", but ", installation.bin_directory, " is ",
        installation.major_version, ": use the programs of PostgreSQL ", major));
  }
  return installation;
}

}  // namespace idempotency
