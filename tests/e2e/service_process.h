// The real binary as a child process: what a test kills, stops and reads.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/app/child_process.h"

namespace idempotency {

// Not thread-safe. The process is killed when the object, or the test binary, ends.
class ServiceProcess {
 public:
  // Runs `idempotencyd` with these arguments, and with these variables ("NAME=VALUE") beside those
  // of ProcessCommand. What fails ends the test binary with a message.
  explicit ServiceProcess(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& variables = {});
  ~ServiceProcess();
  ServiceProcess(const ServiceProcess&) = delete;
  ServiceProcess& operator=(const ServiceProcess&) = delete;

  // The host:port that it says it listens on, in a line of its log. Waits for it; empty when the
  // process ended, or said nothing in time.
  std::string AwaitAddress();

  // The port on which it says that probes and metrics are, as AwaitAddress; 0: none.
  int AwaitOpsPort();

  pid_t pid() const { return process_->pid(); }
  void Signal(int signal) { process_->Signal(signal); }
  // kill -9, and waits until it is gone.
  void KillHard();
  // Waits for its end, a minute at most. Returns whether it has ended.
  bool AwaitEnd() { return process_->WaitFor(absl::Minutes(1)); }
  bool Running() { return process_->Running(); }
  // As Process's. REQUIRES: it has ended.
  bool Succeeded() const { return process_->Succeeded(); }
  std::string HowItEnded() const { return process_->HowItEnded(); }

  // What it has printed to stdout and to stderr.
  std::string Output() const;
  std::string Log() const;

 private:
  std::string directory_;
  std::unique_ptr<Process> process_;
};

// Arguments of `serve` for tests: insecure, a free port on loopback, no drain delay, bounds that
// let leases be short; then `more`.
std::vector<std::string> ServeArguments(const std::string& conninfo,
                                        const std::vector<std::string>& more = {});

}  // namespace idempotency
