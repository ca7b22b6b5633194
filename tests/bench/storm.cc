// storm: sends many Begins for one new key at once, over all the replicas that it is told, once and
// again, and prints what came of it as one line of JSON.
//
// Exits with 0 if each storm had exactly one `started` and every other call was told
// `in_progress`, else with 1 (the line is printed all the same), and with 2 for a mistake in its
// arguments.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace idempotency::bench {
namespace {

using Stub = v1::IdempotencyService::Stub;

struct Options {
  std::vector<std::string> targets;
  int calls = 1000;
  int storms = 1;
  double every = 10;
};

void ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Sends many Begins for one key at once and prints one line of JSON", "storm");
  app.add_option("--target", options->targets, "host:port of a replica, any number")->required();
  app.add_option("--calls", options->calls, "Begins of one storm (1000)")
      ->check(CLI::PositiveNumber);
  app.add_option("--storms", options->storms, "storms, each of a key of its own (1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--every", options->every,
                 "seconds from storm to storm (10); the first comes after half of it")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
}

std::vector<std::unique_ptr<Stub>> Connect(const Options& options) {
  std::vector<std::unique_ptr<Stub>> stubs;
  for (const std::string& target : options.targets) {
    const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30))) {
      std::cerr << "storm: no connection to " << target << std::endl;
      std::exit(1);
    }
    stubs.push_back(v1::IdempotencyService::NewStub(channel));
  }
  return stubs;
}

struct Call {
  grpc::ClientContext context;
  v1::BeginRequest request;
  v1::BeginResponse response;
  grpc::Status status;
};

struct StormResult {
  int started = 0;
  int in_progress = 0;
  int errors = 0;
  std::string first_error;
  // From the first call's sending to the last one's answer.
  double all_answered_ms = 0;
};

std::vector<std::unique_ptr<Call>> MakeCalls(int count, std::mt19937_64* random) {
  const std::string key = absl::StrFormat("storm-%016x", (*random)());
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < count; ++i) {
    calls.push_back(std::make_unique<Call>());
    v1::BeginRequest& request = calls.back()->request;
    request.set_merchant_id("storm");
    request.set_idempotency_key(key);
    request.set_operation("POST /orders");
    request.set_attempt_id(absl::StrFormat("%016x%016x", (*random)(), (*random)()));
    request.set_fingerprint(std::string(32, 's'));
  }
  return calls;
}

StormResult RunStorm(const std::vector<std::unique_ptr<Stub>>& stubs,
                     const std::vector<std::unique_ptr<Call>>& calls) {
  Mutex mu;
  CondVar answered;
  size_t left = calls.size();
  const absl::Duration start = SystemClock()->BootTime();
  for (size_t i = 0; i < calls.size(); ++i) {
    Call& call = *calls[i];
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stubs[i % stubs.size()]->async()->Begin(&call.context, &call.request, &call.response,
                                            [&](grpc::Status status) {
                                              MutexLock lock(&mu);
                                              call.status = std::move(status);
                                              if (--left == 0) answered.NotifyAll();
                                            });
  }
  {
    MutexLock lock(&mu);
    while (left > 0) answered.Wait(&mu);
  }
  StormResult result;
  result.all_answered_ms = absl::ToDoubleMilliseconds(SystemClock()->BootTime() - start);
  for (const auto& call : calls) {
    if (!call->status.ok()) {
      if (result.errors++ == 0) result.first_error = call->status.error_message();
    } else if (call->response.has_started()) {
      ++result.started;
    } else if (call->response.has_in_progress()) {
      ++result.in_progress;
    }
  }
  return result;
}

int Main(int argc, char** argv) {
  Options options;
  ParseOptions(argc, argv, &options);
  const std::vector<std::unique_ptr<Stub>> stubs = Connect(options);
  std::random_device seed;
  std::mt19937_64 random(uint64_t{seed()} << 32 | seed());
  nlohmann::json json = {{"storms", nlohmann::json::array()}};
  double slowest = 0;
  bool as_expected = true;
  const absl::Time start = absl::Now();
  for (int i = 0; i < options.storms; ++i) {
    // Made before it is due: only sending them is to take time.
    const auto calls = MakeCalls(options.calls, &random);
    absl::SleepFor(start + absl::Seconds(options.every) * (i + 0.5) - absl::Now());
    const StormResult result = RunStorm(stubs, calls);
    slowest = std::max(slowest, result.all_answered_ms);
    as_expected &= result.started == 1 && result.in_progress == options.calls - 1;
    json["storms"].push_back({{"started", result.started},
                              {"in_progress", result.in_progress},
                              {"errors", result.errors},
                              {"first_error", result.first_error},
                              {"all_answered_ms", result.all_answered_ms}});
  }
  json["all_answered_ms"] = slowest;
  json["as_expected"] = as_expected;
  std::cout << json.dump() << std::endl;
  return as_expected ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
