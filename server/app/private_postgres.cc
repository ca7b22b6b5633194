#include "server/app/private_postgres.h"

#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "server/app/loopback_port.h"
#include "server/app/postgres_cluster.h"
#include "server/app/postmaster_file.h"
#include "server/app/program_log.h"
#include "server/base/check.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

// Debian's name for the user that PostgreSQL runs as; other distributions use it too.
constexpr char kServerUser[] = "postgres";
constexpr char kPortFile[] = "port";

constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kForcedStopTimeout = absl::Seconds(10);

// A value of a libpq connection string.
std::string Quote(absl::string_view value) {
  return absl::StrCat("'", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// Who does without the server's syncs does without initdb's: they take most of its time.
bool WantsSync(const PrivatePostgresOptions& options) {
  const std::pair<std::string, std::string> fsync_off = {"fsync", "off"};
  return !options.ephemeral && std::find(options.settings.begin(), options.settings.end(),
                                         fsync_off) == options.settings.end();
}

// Empty when the server let us in, else libpq's words.
std::string TryConnect(const std::string& connection_string) {
  PGconn* const connection = PQconnectdb(connection_string.c_str());
  const absl::Cleanup finish = [connection] { PQfinish(connection); };
  if (PQstatus(connection) == CONNECTION_OK) return "";
  const std::string message = PQerrorMessage(connection);
  return message.empty() ? "out of memory" : message;
}

}  // namespace

absl::StatusOr<std::string> DefaultDataDirectory() {
  if (geteuid() == 0) return "/var/lib/idempotencyd/dev";
  const char* state_home = getenv("XDG_STATE_HOME");
  // The XDG specification: a relative path is to be ignored.
  if (state_home != nullptr && *state_home == '/') {
    return absl::StrCat(state_home, "/idempotencyd/dev");
  }
  const char* home = getenv("HOME");
  if (home == nullptr || *home != '/') {
    const passwd* const entry = getpwuid(geteuid());
    home = entry != nullptr ? entry->pw_dir : nullptr;
  }
  if (home == nullptr || *home != '/') {
    return absl::FailedPreconditionError(
        "no home directory to keep data in: set XDG_STATE_HOME or HOME");
  }
  return absl::StrCat(home, "/.local/state/idempotencyd/dev");
}

absl::StatusOr<std::unique_ptr<PrivatePostgres>> PrivatePostgres::Start(
    const PrivatePostgresOptions& options) {
  std::unique_ptr<PrivatePostgres> postgres(new PrivatePostgres(options));
  RETURN_IF_ERROR(postgres->Prepare());
  ASSIGN_OR_RETURN(
      postgres->installation_,
      OpenCluster(*postgres->state_, {.bin_directory = postgres->options_.bin_directory,
                                      .server_user = postgres->server_user_,
                                      .sync = WantsSync(postgres->options_)}));
  const absl::Time deadline = absl::Now() + postgres->options_.start_timeout;
  RETURN_IF_ERROR(postgres->Adopt(deadline));
  if (postgres->process_ == nullptr) {
    RETURN_IF_ERROR(postgres->Launch(deadline, std::nullopt));
  }
  return postgres;
}

PrivatePostgres::PrivatePostgres(const PrivatePostgresOptions& options)
    : options_(options), owner_(getpid()) {}

PrivatePostgres::~PrivatePostgres() {
  if (owner_ != getpid()) {
    // A forked copy: the server is not its, and neither is the thread that Process would join.
    static_cast<void>(process_.release());
    return;
  }
  // Nobody is left to be told; the server has ended either way.
  Stop().IgnoreError();
}

std::string PrivatePostgres::DataDirectory() const { return state_->File(kClusterDataDirectory); }

std::string PrivatePostgres::LogFile() const { return state_->File(kClusterLogFile); }

std::string PrivatePostgres::ConnectionString(absl::string_view database) const {
  // The empty password makes libpq look into the passfile even when PGPASSWORD is set for something
  // else.
  return absl::StrCat("host=127.0.0.1 port=", port_, " user=", kClusterSuperuser,
                      " dbname=", Quote(database), " password=''",
                      " passfile=", Quote(state_->File(kClusterPasswordFile)),
                      " sslmode=disable gssencmode=disable connect_timeout=5");
}

absl::Status PrivatePostgres::Prepare() {
  const bool as_root = geteuid() == 0;
  if (as_root) {
    absl::StatusOr<ProcessUser> user = FindUser(kServerUser);
    if (!user.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("PostgreSQL does not run as root, and there is no user \"", kServerUser,
                       "\" to run it as: apt-get install postgresql-", kOldestPostgresMajor,
                       ", or run this as an ordinary user"));
    }
    server_user_ = *std::move(user);
  }
  if (options_.ephemeral) {
    ASSIGN_OR_RETURN(state_, StateDirectory::OpenEphemeral(as_root));
    return absl::OkStatus();
  }
  std::string directory = options_.directory;
  if (directory.empty()) {
    ASSIGN_OR_RETURN(directory, DefaultDataDirectory());
  }
  ASSIGN_OR_RETURN(state_, StateDirectory::Open(directory, as_root));
  return absl::OkStatus();
}

absl::Status PrivatePostgres::Adopt(absl::Time deadline) {
  const std::optional<PostmasterFile> file = ReadPostmasterFile(DataDirectory());
  if (!file.has_value()) return absl::OkStatus();
  std::unique_ptr<Process> process = FindPostmaster(*file, DataDirectory());
  if (process == nullptr) {
    RemoveMisleadingPostmasterFile(*file, DataDirectory());
    return absl::OkStatus();
  }
  process_ = std::move(process);
  port_ = file->port;
  const absl::Status answer = AwaitAnswer(deadline, /*adopted=*/true);
  if (answer.ok()) {
    reused_ = true;
    return answer;
  }
  // It was shutting down when its owner was killed: then a new one is started.
  const bool ended = !process_->Running();
  process_.reset();
  return ended ? absl::OkStatus() : answer;
}

absl::Status PrivatePostgres::Launch(absl::Time deadline, std::optional<int> fixed_port) {
  int last_port = 0;
  if (!absl::SimpleAtoi(state_->Read(kPortFile), &last_port)) last_port = 0;
  while (true) {
    if (fixed_port.has_value()) {
      port_ = *fixed_port;
    } else {
      ASSIGN_OR_RETURN(port_, ChooseLoopbackPort(last_port));
    }
    ASSIGN_OR_RETURN(const ProgramLog log, ProgramLog::Open(LogFile()));
    const absl::Status status = LaunchOnce(deadline, log.fd());
    if (status.ok()) return state_->Write(kPortFile, absl::StrCat(port_, "\n"));
    StopServer().IgnoreError();
    const std::string text = log.Read();
    // Another program took the port since it was chosen, or processes of a killed server have not
    // ended yet.
    const bool passing = absl::StrContains(text, "Address already in use") ||
                         absl::StrContains(text, "pre-existing shared memory block");
    if (!passing || absl::Now() >= deadline) {
      return absl::Status(status.code(), absl::StrCat(status.message(), " ", log.Describe()));
    }
    absl::SleepFor(kPause);
  }
}

absl::Status PrivatePostgres::LaunchOnce(absl::Time deadline, int output_fd) {
  std::vector<std::string> argv = {installation_.Program("postgres"), "-D", DataDirectory()};
  const auto set = [&argv](absl::string_view name, absl::string_view value) {
    argv.push_back("-c");
    argv.push_back(absl::StrCat(name, "=", value));
  };
  for (const auto& [name, value] : options_.settings) set(name, value);
  // Of two settings of one name the last counts.
  set("listen_addresses", "127.0.0.1");
  set("port", absl::StrCat(port_));
  set("unix_socket_directories", "");
  set("logging_collector", "off");
  ASSIGN_OR_RETURN(process_,
                   Process::Start({.argv = std::move(argv),
                                   .directory = DataDirectory(),
                                   .output_fd = output_fd,
                                   .user = server_user_,
                                   // SIGQUIT: PostgreSQL's immediate shutdown, children included.
                                   .death_signal = options_.ephemeral ? SIGQUIT : 0}));
  return AwaitAnswer(deadline, /*adopted=*/false);
}

absl::Status PrivatePostgres::AwaitAnswer(absl::Time deadline, bool adopted) {
  while (true) {
    const std::string refusal = TryConnect(ConnectionString());
    // In this order: another server may have answered, on a port that ours did not get.
    if (!process_->Running()) {
      return absl::FailedPreconditionError(
          absl::StrCat("PostgreSQL did not start (", process_->HowItEnded(), ")."));
    }
    if (refusal.empty()) return absl::OkStatus();
    if (adopted && absl::StrContains(refusal, "password authentication failed")) {
      return absl::FailedPreconditionError(
          absl::StrCat("the PostgreSQL that runs on ", DataDirectory(), " (process ",
                       process_->pid(), ") does not take the password in ",
                       state_->File(kClusterPasswordFile), ": stop that process"));
    }
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "PostgreSQL did not answer within ", absl::FormatDuration(options_.start_timeout), " (",
          absl::StripAsciiWhitespace(refusal), ")."));
    }
    absl::SleepFor(kPause);
  }
}

absl::Status PrivatePostgres::StopServer() {
  if (process_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Process> process = std::move(process_);
  process->Signal(SIGINT);
  if (process->WaitFor(options_.stop_timeout)) return absl::OkStatus();
  process->Signal(SIGQUIT);
  if (!process->WaitFor(kForcedStopTimeout)) {
    process->Signal(SIGKILL);
    process->WaitFor(absl::InfiniteDuration());
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "PostgreSQL did not shut down within ", absl::FormatDuration(options_.stop_timeout),
      " and was made to end; see ", state_ != nullptr ? LogFile() : "its log"));
}

absl::Status PrivatePostgres::Stop() {
  const absl::Status status = StopServer();
  state_.reset();
  return status;
}

void PrivatePostgres::LeaveRunning() {
  IDEM_CHECK(!options_.ephemeral) << "an ephemeral server ends with its directory";
  process_.reset();
  state_.reset();
}

absl::Status PrivatePostgres::Restart() {
  RETURN_IF_ERROR(StopServer());
  return Launch(absl::Now() + options_.start_timeout, port_);
}

void PrivatePostgres::KillHard() {
  if (process_ == nullptr) return;
  process_->Signal(SIGKILL);
  process_->WaitFor(absl::InfiniteDuration());
  process_.reset();
}

bool PrivatePostgres::Running() { return process_ != nullptr && process_->Running(); }

pid_t PrivatePostgres::Pid() const {
  IDEM_CHECK(process_ != nullptr) << "the server was killed";
  return process_->pid();
}

}  // namespace idempotency
