#include "server/app/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using ::testing::HasSubstr;

// Programs in this file are no shell scripts of ours: /bin/sh is just a program that can print.
std::string OutputOf(const std::string& script) {
  return RunAndRead({"/bin/sh", "-c", script}, absl::Seconds(60)).value_or("failed");
}

class OutputFile {
 public:
  OutputFile() : fd_(memfd_create("output", MFD_CLOEXEC)) {}
  ~OutputFile() { close(fd_); }
  int fd() const { return fd_; }
  std::string Read() const {
    std::string text(4096, '\0');
    text.resize(pread(fd_, text.data(), text.size(), 0));
    return text;
  }

 private:
  const int fd_;
};

TEST(Process, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(*RunAndRead({"/usr/bin/printf", "%s", "a b'\"$(id)"}, absl::Seconds(60)),
            "a b'\"$(id)");
}

TEST(Process, InheritsNoEnvironment) {
  setenv("PGDATA", "/nowhere", 1);
  EXPECT_EQ(OutputOf("echo $PGDATA"), "\n");
  unsetenv("PGDATA");
}

TEST(Process, InheritsNoDescriptor) {
  // Without O_CLOEXEC, as a library might open it.
  const int fd = open("/dev/null", O_RDONLY);
  EXPECT_EQ(OutputOf("if test -e /proc/self/fd/" + std::to_string(fd) +
                     "; then echo open; else echo closed; fi"),
            "closed\n");
  close(fd);
}

TEST(Process, RunsInSessionOfItsOwn) {
  EXPECT_NE(OutputOf("cut -d' ' -f6 /proc/$$/stat"), std::to_string(getsid(0)) + "\n");
}

TEST(Process, MissingProgramIsExplained) {
  const absl::StatusOr<std::string> output = RunAndRead({"/no/such/program"}, absl::Seconds(60));
  EXPECT_EQ(output.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(output.status().message()),
              HasSubstr("cannot run /no/such/program: No such file or directory"));
}

TEST(Process, UnreachableDirectoryIsExplained) {
  const OutputFile output;
  auto process = Process::Start(
      {.argv = {"/bin/true"}, .directory = "/no/such/directory", .output_fd = output.fd()});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
  EXPECT_FALSE((*process)->Succeeded());
  EXPECT_EQ(output.Read(), "cannot enter /no/such/directory: No such file or directory\n");
}

TEST(Process, ProgramThatRunsTooLongIsKilled) {
  EXPECT_EQ(RunAndRead({"/bin/sleep", "1000"}, absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(Process, TellsHowItEnded) {
  const OutputFile output;
  auto process = Process::Start({.argv = {"/bin/sleep", "1000"}, .output_fd = output.fd()});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->Running());
  (*process)->Signal(SIGKILL);
  EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
  EXPECT_EQ((*process)->HowItEnded(), "signal 9");
}

TEST(Process, RunsAsTheUserAskedForWhenRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const absl::StatusOr<ProcessUser> nobody = FindUser("nobody");
  ASSERT_TRUE(nobody.ok()) << nobody.status();
  const OutputFile output;
  auto process = Process::Start({.argv = {"/bin/sh", "-c", "id -u; id -G; echo $HOME; umask"},
                                 .output_fd = output.fd(),
                                 .user = *nobody});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
  EXPECT_EQ(output.Read(), std::to_string(nobody->uid) + "\n" + std::to_string(nobody->gid) + "\n" +
                               nobody->home + "\n0077\n");
}

TEST(Process, UnknownUserIsNotFound) {
  EXPECT_EQ(FindUser("no-such-user").status().code(), absl::StatusCode::kNotFound);
}

TEST(Process, ProcessThatIsGoneIsNotFound) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(Process::Find(pid).status().code(), absl::StatusCode::kNotFound);
}

TEST(Process, DeathSignalComesWhenTheStarterIsKilled) {
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    const int null_fd = open("/dev/null", O_WRONLY);
    auto process = Process::Start(
        {.argv = {"/bin/sleep", "1000"}, .output_fd = null_fd, .death_signal = SIGKILL});
    const pid_t pid = process.ok() ? (*process)->pid() : -1;
    if (write(started[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    while (true) pause();
  }
  pid_t pid = -1;
  ASSERT_EQ(read(started[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  auto process = Process::Find(pid);
  ASSERT_TRUE(process.ok()) << process.status();
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  EXPECT_TRUE((*process)->WaitFor(absl::Seconds(60)));
  close(started[0]);
  close(started[1]);
}

}  // namespace
}  // namespace idempotency
