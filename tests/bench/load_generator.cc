// load_generator: puts load on one server and prints what came of it as one line of JSON.
//
// Exits with 0 if every answer was of the kind that the workload expects, else with 1 (the line is
// printed all the same), and with 2 for a mistake in its arguments.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "nlohmann/json.hpp"
#include "tests/bench/caller.h"
#include "tests/bench/usage.h"
#include "tests/bench/workload.h"

namespace idempotency::bench {
namespace {

constexpr double kNanosPerSecond = 1e9;

struct Options {
  std::vector<std::string> targets;
  std::string workload = "begin";
  WorkloadOptions load;
  uint64_t pairs = 0;
  uint64_t records = 10'000;
  size_t in_flight = 256;
  double rate = 0;
  double warm_up = 1;
  double duration = 3;
  // Measured on 2 cores: with these the no-op server answers most.
  int threads = 2;
  int channels = 4;
  std::vector<std::string> watch;
};

void ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Puts load on an idempotency service and prints one line of JSON", "load_generator");
  app.add_option("--target", options->targets, "host:port, any number: connections take turns")
      ->required();
  app.add_option("--workload", options->workload, "begin, pair, replay or duplicate");
  app.add_option("--in-flight", options->in_flight, "closed loop: calls in flight");
  app.add_option("--rate", options->rate, "open loop: calls a second, from one thread");
  app.add_option("--warm-up", options->warm_up, "seconds that do not count");
  app.add_option("--duration", options->duration, "seconds that count");
  app.add_option("--threads", options->threads,
                 "closed loop: threads, each with a completion queue");
  app.add_option("--channels", options->channels, "connections");
  app.add_option("--duplicates", options->load.duplicate_share,
                 "duplicate: share of repeated keys");
  app.add_option("--records", options->records, "replay: records to make first");
  app.add_option("--lag", options->load.lag, "pair: attempts at work at a time");
  app.add_option("--pairs", options->pairs, "pair: make so many and stop; all of them count");
  app.add_option("--body-bytes", options->load.body_bytes, "body of an outcome");
  app.add_flag("--response-id", options->load.response_id, "outcomes have a response id");
  app.add_option("--watch", options->watch,
                 "NAME=PID of a process tree whose cost is told, any number");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  const std::optional<WorkloadKind> kind = ParseWorkload(options->workload);
  if (!kind.has_value() || options->threads < 1 || options->channels < 1 ||
      options->in_flight < 1) {
    std::cerr << "load_generator: no such workload, or a count below 1" << std::endl;
    std::exit(2);
  }
  options->load.kind = *kind;
  options->threads = std::min(options->threads, static_cast<int>(options->in_flight));
  if (options->pairs > 0) options->load.pairs = options->pairs;
}

Channels Connect(const Options& options) {
  Channels channels;
  for (int i = 0; i < options.channels; ++i) {
    const std::string& target = options.targets[static_cast<size_t>(i) % options.targets.size()];
    grpc::ChannelArguments arguments;
    // Otherwise channels to one address share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    channels.push_back(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments));
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
    if (!channels.back()->WaitForConnected(deadline)) {
      std::cerr << "load_generator: no connection to " << target << std::endl;
      std::exit(1);
    }
  }
  return channels;
}

// CPU time by name: of the watched trees, of this process and of the whole machine.
struct CpuReading {
  int64_t at = NowNanos();
  std::map<std::string, double> seconds;
};

class Watch {
 public:
  explicit Watch(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const size_t equals = name.find('=');
      pid_t pid = 0;
      if (equals == std::string::npos || !absl::SimpleAtoi(name.substr(equals + 1), &pid)) {
        std::cerr << "load_generator: --watch is NAME=PID" << std::endl;
        std::exit(2);
      }
      roots_[name.substr(0, equals)] = pid;
    }
    roots_["generator"] = getpid();
  }

  CpuReading Read() const {
    CpuReading reading;
    for (const auto& [name, pid] : roots_) reading.seconds[name] = CpuSecondsOf(pid);
    reading.seconds["machine"] = CpuSecondsOfMachine();
    return reading;
  }

  // What was used between two readings, and the memory at the end.
  void Describe(const CpuReading& from, const CpuReading& to, nlohmann::json* json) const {
    double ours = 0;
    for (const auto& [name, pid] : roots_) {
      const double used = to.seconds.at(name) - from.seconds.at(name);
      ours += used;
      (*json)["cpu_seconds"][name] = used;
      (*json)["peak_resident_bytes"][name] = PeakResidentBytes(pid);
      (*json)["proportional_bytes"][name] = ProportionalBytes(pid);
    }
    const double machine = to.seconds.at("machine") - from.seconds.at("machine");
    (*json)["cpu_seconds"]["others"] = std::max(0.0, machine - ours);
  }

 private:
  std::map<std::string, pid_t> roots_;
};

// The channels are dealt to the threads, so that a thread's answers come in on its own connections.
Channels ChannelsOf(const Channels& all, int thread, int threads) {
  Channels mine;
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) % threads == thread % static_cast<int>(all.size()))
      mine.push_back(all[i]);
  }
  return mine.empty() ? all : mine;
}

WorkloadOptions ShareOf(const WorkloadOptions& all, int threads) {
  WorkloadOptions share = all;
  share.lag = all.lag / static_cast<size_t>(threads);
  if (all.pairs.has_value()) share.pairs = *all.pairs / static_cast<uint64_t>(threads);
  return share;
}

struct ClosedLoopResult {
  Tally tally;
  CpuReading from;
  CpuReading to;
  std::vector<KeySeed> completed;
};

ClosedLoopResult ClosedLoop(const Options& options, const WorkloadOptions& load,
                            const Channels& channels, const std::vector<KeySeed>& recorded,
                            const Watch& watch) {
  Stage stage;
  std::vector<Workload> workloads;
  std::vector<Tally> tallies(static_cast<size_t>(options.threads));
  std::random_device seed;
  for (int i = 0; i < options.threads; ++i) {
    workloads.emplace_back(ShareOf(load, options.threads), uint64_t{seed()} << 32 | seed(),
                           &recorded);
  }
  const bool until_finished = load.pairs.has_value();
  if (until_finished) stage.now = Stage::kMeasure;
  ClosedLoopResult result;
  result.from = watch.Read();
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    const auto place = static_cast<size_t>(i);
    threads.emplace_back([&, place, i] {
      RunClosedLoop(ChannelsOf(channels, i, options.threads),
                    std::max<size_t>(1, options.in_flight / static_cast<size_t>(options.threads)),
                    &workloads[place], stage, &tallies[place]);
    });
  }
  if (until_finished) {
    for (std::thread& thread : threads) thread.join();
    result.to = watch.Read();
  } else {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.warm_up));
    result.from = watch.Read();
    stage.now = Stage::kMeasure;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.duration));
    stage.now = Stage::kStop;
    result.to = watch.Read();
    for (std::thread& thread : threads) thread.join();
  }
  for (size_t i = 0; i < tallies.size(); ++i) {
    result.tally.Add(tallies[i]);
    const std::vector<KeySeed>& completed = workloads[i].completed();
    result.completed.insert(result.completed.end(), completed.begin(), completed.end());
  }
  return result;
}

ClosedLoopResult OpenLoop(const Options& options, const Channels& channels,
                          const std::vector<KeySeed>& recorded, const Watch& watch) {
  Workload workload(options.load, std::random_device()(), &recorded);
  ClosedLoopResult result;
  OpenLoopSchedule schedule;
  schedule.calls_per_second = options.rate;
  schedule.start = NowNanos();
  schedule.measure = schedule.start + static_cast<int64_t>(options.warm_up * kNanosPerSecond);
  schedule.end = schedule.measure + static_cast<int64_t>(options.duration * kNanosPerSecond);
  std::thread calling([&] { RunOpenLoop(channels, schedule, &workload, &result.tally); });
  std::this_thread::sleep_for(std::chrono::nanoseconds(schedule.measure - NowNanos()));
  result.from = watch.Read();
  calling.join();
  result.to = watch.Read();
  return result;
}

nlohmann::json Latencies(const Histogram& histogram) {
  const auto millis = [&](double q) { return static_cast<double>(histogram.Percentile(q)) / 1e6; };
  return {{"count", histogram.count()},
          {"p50_ms", millis(0.5)},
          {"p99_ms", millis(0.99)},
          {"p999_ms", millis(0.999)},
          {"max_ms", millis(1)}};
}

nlohmann::json Describe(const ClosedLoopResult& result, const Watch& watch) {
  const double seconds = static_cast<double>(result.to.at - result.from.at) / kNanosPerSecond;
  const Tally& tally = result.tally;
  nlohmann::json json;
  json["seconds"] = seconds;
  json["calls"] = tally.calls();
  json["calls_per_second"] = static_cast<double>(tally.calls()) / seconds;
  Histogram all = tally.begin_latency;
  all.Add(tally.complete_latency);
  json["latency"] = Latencies(all);
  json["begin"] = Latencies(tally.begin_latency);
  json["complete"] = Latencies(tally.complete_latency);
  json["sent_late"] = Latencies(tally.late);
  for (size_t i = 0; i < kHeardKinds; ++i)
    json["heard"][HeardName(static_cast<Heard>(i))] = tally.heard[i];
  json["unexpected"] = tally.unexpected;
  uint64_t errors = 0;
  for (const auto& [code, count] : tally.errors) {
    json["errors_by_code"][absl::StrCat(code)] = count;
    errors += count;
  }
  json["errors"] = errors;
  json["first_error"] = tally.first_error;
  watch.Describe(result.from, result.to, &json);
  return json;
}

int Main(int argc, char** argv) {
  // As the servers do, see server/rpc/server.cc.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Options options;
  ParseOptions(argc, argv, &options);
  const Watch watch(options.watch);
  const Channels channels = Connect(options);
  std::vector<KeySeed> recorded;
  if (options.load.kind == WorkloadKind::kReplay) {
    WorkloadOptions making = options.load;
    making.kind = WorkloadKind::kPair;
    making.pairs = options.records;
    recorded = ClosedLoop(options, making, channels, {}, watch).completed;
    if (recorded.empty()) {
      std::cerr << "load_generator: no record could be made to replay" << std::endl;
      return 1;
    }
  }
  const ClosedLoopResult result =
      options.rate > 0 ? OpenLoop(options, channels, recorded, watch)
                       : ClosedLoop(options, options.load, channels, recorded, watch);
  const nlohmann::json json = Describe(result, watch);
  std::cout << json.dump() << std::endl;
  return json["unexpected"] == 0 && json["errors"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
