#include "server/app/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

// Everything the child needs, laid out before the fork: between fork and exec it may not allocate,
// because another thread may have held the allocator's lock.
struct PreparedCommand {
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  const ProcessCommand* command = nullptr;
  pid_t parent = 0;
};

// By number: the declarations of glibc before 2.37 cannot be used from C++.
int OpenPidfd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string CurrentHome() {
  const char* home = getenv("HOME");
  return home != nullptr ? home : "/";
}

void WriteText(const char* text) {
  if (text == nullptr) return;
  // Nothing can be done for a reader that is gone.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, strlen(text));
}

// Ends the child. Only calls that are safe after a fork.
[[noreturn]] void GiveUp(const char* what, const char* detail) {
  const int error = errno;
  WriteText("cannot ");
  WriteText(what);
  WriteText(detail);
  WriteText(": ");
  WriteText(strerrordesc_np(error));
  WriteText("\n");
  _exit(127);
}

void CloseDescriptorsFrom(unsigned first) {
  if (close_range(first, ~0U, 0) == 0) return;
  // A kernel before 5.9, or a sandbox without the call.
  for (int fd = static_cast<int>(first); fd < 65536; ++fd) close(fd);
}

void ResetSignals() {
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &default_action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunChild(const PreparedCommand& prepared) {
  const ProcessCommand& command = *prepared.command;
  ResetSignals();
  if (dup2(command.output_fd, STDOUT_FILENO) < 0 || dup2(command.output_fd, STDERR_FILENO) < 0) {
    _exit(127);
  }
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0) GiveUp("open ", "/dev/null");
  CloseDescriptorsFrom(3);
  setsid();
  umask(077);
  if (command.user.has_value()) {
    const ProcessUser& user = *command.user;
    if (setgroups(user.groups.size(), user.groups.data()) != 0 || setgid(user.gid) != 0 ||
        setuid(user.uid) != 0) {
      GiveUp("become the user ", user.name.c_str());
    }
  }
  if (chdir(command.directory.c_str()) != 0) GiveUp("enter ", command.directory.c_str());
  // After the change of user, which clears it.
  if (command.death_signal != 0) {
    prctl(PR_SET_PDEATHSIG, command.death_signal);
    // The parent may have ended before the line above: then no signal comes any more.
    if (getppid() != prepared.parent) _exit(127);
  }
  execve(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  GiveUp("run ", prepared.argv[0]);
}

PreparedCommand Prepare(const ProcessCommand& command) {
  PreparedCommand prepared;
  prepared.command = &command;
  prepared.parent = getpid();
  prepared.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                          absl::StrCat("HOME=", command.user ? command.user->home : CurrentHome())};
  if (command.user.has_value()) {
    prepared.environment.push_back(absl::StrCat("USER=", command.user->name));
  }
  prepared.argv = Pointers(command.argv);
  prepared.envp = Pointers(prepared.environment);
  return prepared;
}

// Returns the child's id, or -1 with errno.
pid_t Fork(const ProcessCommand& command) {
  const PreparedCommand prepared = Prepare(command);
  const pid_t pid = fork();
  if (pid == 0) RunChild(prepared);
  return pid;
}

}  // namespace

absl::StatusOr<ProcessUser> FindUser(const std::string& name) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("no user \"", name, "\" on this machine",
                                            error != 0 ? ": " : "",
                                            error != 0 ? strerrordesc_np(error) : ""));
  }
  int count = 64;
  std::vector<gid_t> groups(count);
  if (getgrouplist(name.c_str(), entry.pw_gid, groups.data(), &count) < 0) {
    groups.resize(count);
    getgrouplist(name.c_str(), entry.pw_gid, groups.data(), &count);
  }
  groups.resize(count);
  return ProcessUser{name, entry.pw_uid, entry.pw_gid, std::move(groups), entry.pw_dir};
}

// The kernel sends the death signal when the *thread* that forked ends. So the fork is done by a
// thread that does nothing else and lives as long as this object.
class Process::DeathWatch {
 public:
  explicit DeathWatch(const ProcessCommand& command) {
    thread_ = std::thread([this, &command] { Run(command); });
    MutexLock lock(&mu_);
    while (!forked_) changed_.Wait(&mu_);
  }

  ~DeathWatch() {
    {
      MutexLock lock(&mu_);
      over_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  // The child's id, or -1.
  pid_t pid() {
    MutexLock lock(&mu_);
    return pid_;
  }
  int error() {
    MutexLock lock(&mu_);
    return error_;
  }

 private:
  void Run(const ProcessCommand& command) {
    // Signals are the business of the threads that were there before.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    const pid_t pid = Fork(command);
    const int error = errno;
    MutexLock lock(&mu_);
    pid_ = pid;
    error_ = error;
    forked_ = true;
    changed_.NotifyAll();
    while (!over_) changed_.Wait(&mu_);
  }

  Mutex mu_;
  CondVar changed_;
  bool forked_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  pid_t pid_ ABSL_GUARDED_BY(mu_) = -1;
  int error_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const ProcessCommand& command) {
  IDEM_CHECK(!command.argv.empty() && command.output_fd >= 0);
  std::unique_ptr<DeathWatch> death_watch;
  pid_t pid = -1;
  if (command.death_signal != 0) {
    death_watch = std::make_unique<DeathWatch>(command);
    pid = death_watch->pid();
    errno = death_watch->error();
  } else {
    pid = Fork(command);
  }
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  // Our own child's id cannot be reused before we wait for it.
  const int pidfd = OpenPidfd(pid);
  if (pidfd < 0) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::ErrnoToStatus(error, "pidfd_open (a Linux of 5.3 or later is needed)");
  }
  std::unique_ptr<Process> process(new Process(pid, pidfd, /*is_child=*/true));
  process->death_watch_ = std::move(death_watch);
  return process;
}

absl::StatusOr<std::unique_ptr<Process>> Process::Find(pid_t pid) {
  const int pidfd = OpenPidfd(pid);
  if (pidfd < 0) {
    // EINVAL: the id of a thread, or none at all.
    if (errno == ESRCH || errno == EINVAL) {
      return absl::NotFoundError(absl::StrCat("no process ", pid));
    }
    return absl::ErrnoToStatus(errno, "pidfd_open");
  }
  return std::unique_ptr<Process>(new Process(pid, pidfd, /*is_child=*/false));
}

Process::Process(pid_t pid, int pidfd, bool is_child)
    : pid_(pid), pidfd_(pidfd), is_child_(is_child) {}

Process::~Process() { close(pidfd_); }

bool Process::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!ended_) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    pollfd readable = {pidfd_, POLLIN, 0};
    const int64_t wait_ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    const int ready = poll(&readable, 1, static_cast<int>(std::min<int64_t>(wait_ms, 3600'000)));
    if (ready > 0) {
      Reap();
    } else if (left <= absl::ZeroDuration()) {
      return false;
    }
  }
  return true;
}

void Process::Reap() {
  ended_ = true;
  if (!is_child_) return;
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0) return;
  succeeded_ = info.si_code == CLD_EXITED && info.si_status == 0;
  how_it_ended_ =
      absl::StrCat(info.si_code == CLD_EXITED ? "exit status " : "signal ", info.si_status);
}

void Process::Signal(int signal) {
  if (!ended_) syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

absl::StatusOr<std::string> RunAndRead(const std::vector<std::string>& argv,
                                       absl::Duration timeout) {
  // A file in memory and not a pipe: nobody has to read while the program runs.
  const int fd = memfd_create("output", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  ASSIGN_OR_RETURN(const std::unique_ptr<Process> process,
                   Process::Start({.argv = argv, .output_fd = fd}));
  const bool in_time = process->WaitFor(timeout);
  if (!in_time) {
    process->Signal(SIGKILL);
    process->WaitFor(absl::InfiniteDuration());
  }
  std::string output(64 * 1024, '\0');
  output.resize(std::max<ssize_t>(pread(fd, output.data(), output.size(), 0), 0));
  if (!in_time) {
    return absl::DeadlineExceededError(
        absl::StrCat(absl::StrJoin(argv, " "), " did not end in ", absl::FormatDuration(timeout)));
  }
  if (!process->Succeeded()) {
    return absl::FailedPreconditionError(
        absl::StrCat(absl::StrJoin(argv, " "), " failed (", process->HowItEnded(), "): ", output));
  }
  return output;
}

}  // namespace idempotency
