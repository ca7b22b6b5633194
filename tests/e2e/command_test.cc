// The commands of the real binary: exit codes, the health check, signals, and what is lost when
// output or a port is not to be had.
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/child_process.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kNowhere[] = "host=127.0.0.1 port=1 dbname=none user=none password=hunter2";

struct Ended {
  std::string how;
  std::string output;
  std::string log;
};

// Runs a command to its end.
Ended RunCommand(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& variables = {}) {
  ServiceProcess process(arguments, variables);
  if (!process.AwaitEnd()) return {"did not end", process.Output(), process.Log()};
  return {process.HowItEnded(), process.Output(), process.Log()};
}

std::string PortOf(const std::string& address) { return address.substr(address.rfind(':') + 1); }

// 0 when there is none, or more than one.
pid_t OnlyChildOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", parent, "/task"))) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children.size() == 1 ? children[0] : 0;
}

// A socket that lets clients connect and never answers.
class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  const std::string& address() const { return address_; }

 private:
  const int socket_;
  std::string address_;
};

TEST(Healthcheck, IsZeroWhenTheReplicaServes) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo());
  const Ended ended = RunCommand({"healthcheck", "--address=" + replicas.address(0)});
  EXPECT_EQ(ended.how, "exit status 0") << ended.log;
  EXPECT_THAT(ended.output, HasSubstr("SERVING"));
}

TEST(Healthcheck, NeedsNoArgumentsBesideTheServersOwnSettings) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo());
  // The container's variables, also those that the check has no use for.
  const Ended ended = RunCommand(
      {"healthcheck"}, {"IDEMPOTENCY_LISTEN=0.0.0.0:" + PortOf(replicas.address(0)),
                        "IDEMPOTENCY_DATABASE_URL=host=elsewhere", "http_proxy=http://127.0.0.1:1",
                        "grpc_proxy=http://127.0.0.1:1"});
  EXPECT_EQ(ended.how, "exit status 0") << ended.log;
}

TEST(Healthcheck, IsOneWhenTheReplicaDoesNotServe) {
  ServiceProcess process(ServeArguments(kNowhere));
  const std::string address = process.AwaitAddress();
  ASSERT_NE(address, "") << process.Log();
  const Ended ended = RunCommand({"healthcheck", "--address=" + address});
  EXPECT_EQ(ended.how, "exit status 1");
  EXPECT_THAT(ended.log, HasSubstr("NOT_SERVING"));
}

TEST(Healthcheck, IsOneWhenNobodyListens) {
  const Ended ended = RunCommand({"healthcheck", "--address=127.0.0.1:1"});
  EXPECT_EQ(ended.how, "exit status 1");
  EXPECT_THAT(ended.log, HasSubstr("127.0.0.1:1"));
}

TEST(Healthcheck, IsOneWhenNobodyAnswersInTime) {
  const SilentPort silent;
  const Ended ended =
      RunCommand({"healthcheck", "--address=" + silent.address(), "--timeout=200ms"});
  EXPECT_EQ(ended.how, "exit status 1") << ended.log;
}

TEST(ExitCode, IsTwoForAWrongConfiguration) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"serve"},
                                                    {"nonsense"},
                                                    {},
                                                    {"migrate"},
                                                    {"dev", "--lanes=x"},
                                                    {"config", "validate"},
                                                    {"config"},
                                                    {"healthcheck", "--timeout=x"}}) {
    const Ended ended = RunCommand(arguments);
    EXPECT_EQ(ended.how, "exit status 2") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("idempotencyd: "));
    EXPECT_EQ(ended.output, "");
  }
}

TEST(ExitCode, IsZeroForHelpAndVersion) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"serve", "--help"}, {"version"}, {"config", "docs"}}) {
    const Ended ended = RunCommand(arguments);
    EXPECT_EQ(ended.how, "exit status 0");
    EXPECT_NE(ended.output, "");
    EXPECT_EQ(ended.log, "");
  }
}

TEST(ExitCode, IsOneWhenThePortIsTaken) {
  const SilentPort taken;
  const Ended ended = RunCommand(ServeArguments(kNowhere, {"--listen=" + taken.address()}));
  EXPECT_EQ(ended.how, "exit status 1");
  EXPECT_THAT(ended.log, AllOf(HasSubstr(taken.address()), HasSubstr("\"event\":\"starting\""),
                               HasSubstr("\"event\":\"insecure\"")));
}

TEST(ExitCode, IsOneWhenOutputIsCutOff) {
  for (const std::string command : {"version", "--help", "migrate print", "config docs"}) {
    const absl::StatusOr<std::string> printed = RunAndRead(
        {"/bin/sh", "-c", absl::StrCat(IDEM_BINARY, " ", command, " >/dev/full; echo $?")},
        absl::Minutes(1));
    ASSERT_TRUE(printed.ok()) << printed.status();
    EXPECT_THAT(*printed, AllOf(HasSubstr("cut off"), HasSubstr("1\n"))) << command;
  }
}

TEST(ConfigCommand, PrintShowsValuesWithSourcesAndNoSecret) {
  std::string path = (std::filesystem::temp_directory_path() / "idempotencyd-e2e-XXXXXX").string();
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  close(file);
  std::ofstream(path) << "[queue]\nmax_items = 4096\n";
  const Ended ended = RunCommand(
      {"config", "print", "--lanes=3"},
      {"IDEMPOTENCY_CONFIG=" + path, "IDEMPOTENCY_DATABASE_URL=postgres://u:hunter2@h/db"});
  std::filesystem::remove(path);
  EXPECT_EQ(ended.how, "exit status 0") << ended.log;
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("flag --lanes"), HasSubstr(absl::StrCat("file ", path, ":2")),
                    HasSubstr("environment IDEMPOTENCY_DATABASE_URL"), HasSubstr("host=h"),
                    Not(HasSubstr("hunter2"))));
}

TEST(ConfigCommand, ValidateRunsServesChecksWithoutConnecting) {
  std::vector<std::string> arguments = {"config", "validate", "--insecure", "--durability=local",
                                        absl::StrCat("--database-url=", kNowhere)};
  EXPECT_EQ(RunCommand(arguments).how, "exit status 0");
  arguments.emplace_back("--ttl-max=1h");
  const Ended ended = RunCommand(arguments);
  EXPECT_EQ(ended.how, "exit status 2");
  EXPECT_THAT(ended.log, AllOf(HasSubstr("--ttl-max"), Not(HasSubstr("hunter2"))));
}

TEST(ServeCommand, LogsWhatWasSetWithoutSecrets) {
  ServiceProcess process(ServeArguments(kNowhere, {"--lanes=3"}));
  ASSERT_NE(process.AwaitAddress(), "") << process.Log();
  EXPECT_THAT(process.Log(),
              AllOf(HasSubstr(R"("event":"setting","name":"lanes","value":"3","source":"flag)"),
                    HasSubstr("password=****"), Not(HasSubstr("hunter2"))));
}

TEST(StopSignalEndToEnd, SigtermDuringTheStartLosesNothing) {
  ServiceProcess process(ServeArguments(kNowhere));
  process.Signal(SIGTERM);
  ASSERT_TRUE(process.AwaitEnd());
  // Before the program is ready to drain there is nothing to drain.
  EXPECT_THAT(process.HowItEnded(), AnyOf("exit status 0", "signal 15")) << process.Log();
}

TEST(StopSignalEndToEnd, ASecondSignalEndsDevWhileItStarts) {
  ServiceProcess dev({"dev", "--ephemeral", "--listen=127.0.0.1:0"});
  ASSERT_TRUE(Eventually([&] { return dev.Output().find("Starting") != std::string::npos; }));
  // Of two kinds: two pending signals of one kind are one.
  dev.Signal(SIGTERM);
  dev.Signal(SIGINT);
  ASSERT_TRUE(dev.AwaitEnd());
  EXPECT_THAT(dev.HowItEnded(), AnyOf("exit status 130", "exit status 143"));
}

TEST(StopSignalEndToEnd, ASecondSignalEndsDevWhileItsPostgresqlDoesNotStop) {
  ServiceProcess dev({"dev", "--ephemeral", "--listen=127.0.0.1:0", "--log-level=info"});
  ASSERT_NE(dev.AwaitAddress(), "") << dev.Log();
  // Stopped, it does not hear that it should end.
  const pid_t postmaster = OnlyChildOf(dev.pid());
  ASSERT_GT(postmaster, 0);
  ASSERT_EQ(kill(postmaster, SIGSTOP), 0);
  dev.Signal(SIGTERM);
  EXPECT_TRUE(
      Eventually([&] { return dev.Log().find("\"event\":\"stopped\"") != std::string::npos; }));
  EXPECT_TRUE(dev.Running());
  dev.Signal(SIGTERM);
  ASSERT_TRUE(dev.AwaitEnd());
  EXPECT_EQ(dev.HowItEnded(), "exit status 143");
  (void)kill(postmaster, SIGKILL);
}

}  // namespace
}  // namespace idempotency
