#include "tests/e2e/service_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string MakeDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "idempotencyd-e2e-XXXXXX").string();
  IDEM_CHECK(mkdtemp(path.data()) != nullptr) << "no temporary directory";
  return path;
}

// The text between `before` and the next quote; empty when `before` is not there.
std::string Quoted(const std::string& text, const std::string& before) {
  const size_t found = text.find(before);
  if (found == std::string::npos) return "";
  const size_t begin = found + before.size();
  const size_t end = text.find('"', begin);
  return end == std::string::npos ? "" : text.substr(begin, end - begin);
}

}  // namespace

ServiceProcess::ServiceProcess(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& variables)
    : directory_(MakeDirectory()) {
  const int output =
      open(absl::StrCat(directory_, "/stdout").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  IDEM_CHECK(output >= 0) << "no file for the output";
  ProcessCommand command;
  // The shell only parts stderr from stdout, then becomes the program.
  command.argv = {"/bin/sh", "-c", absl::StrCat("exec \"$0\" \"$@\" 2>", directory_, "/stderr"),
                  "/usr/bin/env"};
  command.argv.insert(command.argv.end(), variables.begin(), variables.end());
  command.argv.emplace_back(IDEM_BINARY);
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.output_fd = output;
  command.death_signal = SIGKILL;
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(command);
  close(output);
  IDEM_CHECK(process.ok()) << process.status().ToString();
  process_ = *std::move(process);
}

ServiceProcess::~ServiceProcess() {
  KillHard();
  std::filesystem::remove_all(directory_);
}

std::string ServiceProcess::AwaitAddress() {
  std::string address;
  (void)Eventually([&] {
    address = Quoted(Log(), "\"event\":\"listening\",\"address\":\"");
    return !address.empty() || !process_->Running();
  });
  return address;
}

int ServiceProcess::AwaitOpsPort() {
  std::string address;
  (void)Eventually([&] {
    address = Quoted(Log(), "\"event\":\"ops_listening\",\"address\":\"");
    return !address.empty() || !process_->Running();
  });
  int port = 0;
  return absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port) ? port : 0;
}

void ServiceProcess::KillHard() {
  process_->Signal(SIGKILL);
  (void)AwaitEnd();
}

std::string ServiceProcess::Output() const { return ReadFile(directory_ + "/stdout"); }

std::string ServiceProcess::Log() const { return ReadFile(directory_ + "/stderr"); }

std::vector<std::string> ServeArguments(const std::string& conninfo,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"serve",
                                        "--insecure",
                                        "--durability=local",
                                        absl::StrCat("--database-url=", conninfo),
                                        "--listen=127.0.0.1:0",
                                        "--ops-listen=127.0.0.1:0",
                                        "--drain-delay=0",
                                        "--unsafe-test-bounds",
                                        "--lease-min-duration=100ms",
                                        "--ttl-min=1s",
                                        "--skew-margin=200ms"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace idempotency
