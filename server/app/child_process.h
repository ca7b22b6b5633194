// Starting another program, without a shell, and holding on to it without ever meeting a reused
// process id.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

// An unprivileged user to run a program as.
struct ProcessUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string home;
};

// NotFound when the system knows no such user.
absl::StatusOr<ProcessUser> FindUser(const std::string& name);

struct ProcessCommand {
  // argv[0] is the program's full path; PATH is not searched.
  std::vector<std::string> argv;
  // The program's working directory. Entered as `user`, so one that the user cannot reach is found
  // out here.
  std::string directory = "/";
  // Becomes the program's standard output and error. Stays the caller's to close.
  int output_fd = -1;
  // Run as this user. Needs root. Nothing: as the current user.
  std::optional<ProcessUser> user;
  // Not 0: the program gets this signal when the process that started it ends, however it ends, or
  // when its Process object is destroyed.
  int death_signal = 0;
};

// A running program, ours or one found by its id.
//
// Not thread-safe. Owns the kernel's handle on the process (a pidfd), not the process: destroying
// the object leaves the program running, unless it was started with a death_signal.
class Process {
 public:
  // Starts a program in a session of its own, so that Ctrl-C in our terminal does not reach it. Its
  // environment is PATH, HOME, USER, LC_ALL=C.UTF-8 and nothing else, its standard input is empty,
  // no descriptor of ours is left open, its umask is 077. A program that cannot be run writes why
  // to output_fd and ends with 127.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const ProcessCommand& command);

  // The process with that id. NotFound when there is none.
  static absl::StatusOr<std::unique_ptr<Process>> Find(pid_t pid);

  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  bool Running() { return !WaitFor(absl::ZeroDuration()); }

  // Waits until the program has ended, `timeout` at the most. Returns whether it has.
  bool WaitFor(absl::Duration timeout);

  // Does nothing when the program has ended.
  void Signal(int signal);

  // How the program ended: "exit status 1", "signal 9". For one that is not our child only "ended".
  // REQUIRES: not Running().
  std::string HowItEnded() const { return how_it_ended_; }

  // Whether it ended with status 0. REQUIRES: not Running(), and Start() made it.
  bool Succeeded() const { return succeeded_; }

 private:
  class DeathWatch;
  Process(pid_t pid, int pidfd, bool is_child);
  void Reap();

  const pid_t pid_;
  const int pidfd_;
  const bool is_child_;
  bool ended_ = false;
  bool succeeded_ = false;
  std::string how_it_ended_ = "ended";
  std::unique_ptr<DeathWatch> death_watch_;
};

// Runs a program to its end, as the current user. Returns what it printed.
// FailedPrecondition with that text when it failed, DeadlineExceeded when it was killed after
// `timeout`.
absl::StatusOr<std::string> RunAndRead(const std::vector<std::string>& argv,
                                       absl::Duration timeout);

}  // namespace idempotency
