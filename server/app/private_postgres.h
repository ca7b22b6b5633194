// A PostgreSQL server of our own: what `idempotencyd dev` and the tests run on.
//
// It lives in one state directory:
//   lock            held while a process uses the directory
//   data/           the PostgreSQL data directory; there only once initdb has succeeded
//   pgpass          the random password, mode 0600, in libpq's passfile form
//   port            the port of the last start, taken again if it is free, so that pasted commands
//   keep working postgres.log    what initdb and the server print (the one before: postgres.log.1)
//
// The server listens on 127.0.0.1 only, asks for the password (scram-sha-256) and has no Unix
// socket. Started by root it runs as the user `postgres`, which PostgreSQL insists on; otherwise as
// the current user. Ctrl-C in the terminal does not reach it: its owner stops it when nothing needs
// it any more.
//
// A process that is killed leaves its server running. The next one on the same directory uses it
// again.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/app/child_process.h"
#include "server/app/postgres_installation.h"
#include "server/app/state_directory.h"

namespace idempotency {

struct PrivatePostgresOptions {
  // The state directory. Empty: DefaultDataDirectory(). Not used when ephemeral.
  std::string directory;
  // In a new temporary directory that is removed at the end. The server ends with this process,
  // also when it is killed.
  bool ephemeral = false;
  // Passed as `-c name=value`; listen_addresses, port and unix_socket_directories are not to be
  // had. A server that was left running keeps the settings it was started with.
  // fsync=off, for tests, also leaves out the sync after initdb.
  std::vector<std::pair<std::string, std::string>> settings;
  // Where initdb and postgres are. Empty: found, see FindPostgres.
  std::string bin_directory;
  // Bound of a start, initdb not counted (it has two minutes).
  absl::Duration start_timeout = absl::Seconds(30);
  // Bound of a fast shutdown, after which the server is made to end at once. No data is lost by
  // that.
  absl::Duration stop_timeout = absl::Seconds(30);
};

// As root /var/lib/idempotencyd/dev, else $XDG_STATE_HOME/idempotencyd/dev, else
// ~/.local/state/idempotencyd/dev. FailedPrecondition when neither variable nor home directory is
// known.
absl::StatusOr<std::string> DefaultDataDirectory();

// Not thread-safe. Owns the server process and the state directory's lock.
class PrivatePostgres {
 public:
  // Returns when the server answers. Every fault comes with what to do about it, or with the last
  // lines of the server's log:
  //   FailedPrecondition  PostgreSQL is not installed, another process uses the directory (the
  //                       message says which), the directory holds something else, initdb or the
  //                       start failed
  //   DeadlineExceeded    the server did not answer within start_timeout
  //   others              the system refused a file or process operation
  static absl::StatusOr<std::unique_ptr<PrivatePostgres>> Start(
      const PrivatePostgresOptions& options);

  // As Stop(), unless LeaveRunning() was called. Does nothing in a forked copy of the process.
  ~PrivatePostgres();
  PrivatePostgres(const PrivatePostgres&) = delete;
  PrivatePostgres& operator=(const PrivatePostgres&) = delete;

  // Ends all sessions and the server, also one that was reused; removes an ephemeral directory.
  // Idempotent; nothing else may be called afterwards but the destructor. DeadlineExceeded when the
  // server had to be forced: it has ended all the same, and recovers at its next start.
  absl::Status Stop();

  // The server outlives this object; the next Start on the directory uses it again.
  // REQUIRES: not ephemeral. Nothing else may be called afterwards but the destructor.
  void LeaveRunning();

  // Fast shutdown, or nothing if it was killed, and a start on the same port. Statuses as Start().
  absl::Status Restart();

  // SIGKILL to the server's main process, whose children then end on their own. Restart() brings it
  // back.
  void KillHard();

  // Whether the server's main process runs.
  bool Running();

  // The server's main process. REQUIRES: it was not killed.
  pid_t Pid() const;

  int port() const { return port_; }
  // Whether Start() found the server already running.
  bool reused() const { return reused_; }
  const std::string& directory() const { return state_->path(); }
  std::string LogFile() const;

  // libpq connection string for the server's superuser: names the file with the password, does not
  // contain it.
  std::string ConnectionString(absl::string_view database = "postgres") const;

 private:
  explicit PrivatePostgres(const PrivatePostgresOptions& options);

  // Takes the state directory.
  absl::Status Prepare();

  // Uses a server that was left running. OK without a process_: there is none.
  absl::Status Adopt(absl::Time deadline);
  absl::Status Launch(absl::Time deadline, std::optional<int> fixed_port);
  absl::Status LaunchOnce(absl::Time deadline, int output_fd);
  absl::Status AwaitAnswer(absl::Time deadline, bool adopted);
  absl::Status StopServer();
  std::string DataDirectory() const;

  const PrivatePostgresOptions options_;
  const pid_t owner_;
  std::optional<ProcessUser> server_user_;
  PostgresInstallation installation_;
  std::unique_ptr<StateDirectory> state_;
  std::unique_ptr<Process> process_;
  int port_ = 0;
  bool reused_ = false;
};

}  // namespace idempotency
