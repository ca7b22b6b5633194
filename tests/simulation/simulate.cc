// simulate: runs the simulation with one seed after the other.
//
//   simulate [--seconds N] [--seed S] [--actions N] [--trace]
//
// Without --seed the seeds begin at a random one, and it goes on for so many seconds (60), on each
// processor. With --seed it runs that one alone. Prints what it found; ends with 1 if that is a
// violation, with 2 if the arguments are wrong.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "tests/simulation/simulation.h"

namespace idempotency {
namespace {

struct Arguments {
  int64_t seconds = 60;
  std::optional<uint64_t> seed;
  SimulationOptions options;
  bool shows_trace = false;
};

std::optional<Arguments> Parse(const std::vector<absl::string_view>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--trace") {
      arguments.shows_trace = true;
      continue;
    }
    uint64_t value = 0;
    if (i + 1 == words.size() || !absl::SimpleAtoi(words[i + 1], &value)) return std::nullopt;
    if (words[i] == "--seconds") {
      arguments.seconds = static_cast<int64_t>(value);
    } else if (words[i] == "--seed") {
      arguments.seed = value;
    } else if (words[i] == "--actions") {
      arguments.options.actions = static_cast<size_t>(value);
    } else {
      return std::nullopt;
    }
    ++i;
  }
  return arguments;
}

int RunOne(const Arguments& arguments) {
  SimulationOptions options = arguments.options;
  options.seed = *arguments.seed;
  options.is_traced = arguments.shows_trace;
  const SimulationResult result = Simulate(options);
  for (const std::string& line : result.trace) std::cout << line << "\n";
  if (result.violation.has_value()) {
    std::cout << Explain(options, *result.violation);
    return 1;
  }
  std::cout << "seed " << options.seed << ": " << result.calls
            << " calls, nothing is wrong; digest " << result.digest << "\n";
  return 0;
}

// What all threads find together.
class Search {
 public:
  Search(const Arguments& arguments, uint64_t first_seed)
      : options_(arguments.options),
        next_seed_(first_seed),
        end_(absl::Now() + absl::Seconds(arguments.seconds)) {}

  void Work() {
    while (!is_found_ && absl::Now() < end_) {
      SimulationOptions options = options_;
      options.seed = next_seed_++;
      const SimulationResult result = Simulate(options);
      ++runs_;
      calls_ += result.calls;
      if (!result.violation.has_value() || is_found_.exchange(true)) continue;
      const std::string text = Explain(options, *result.violation);
      MutexLock lock(&mu_);
      text_ = text;
    }
  }
  // After all threads have ended.
  int Report(uint64_t first_seed) {
    MutexLock lock(&mu_);
    std::cout << text_ << runs_ << " runs from seed " << first_seed << " on, " << calls_
              << " calls, " << (is_found_ ? "1 violation" : "nothing is wrong") << "\n";
    return is_found_ ? 1 : 0;
  }

 private:
  const SimulationOptions options_;
  std::atomic<uint64_t> next_seed_;
  const absl::Time end_;
  std::atomic<bool> is_found_{false};
  std::atomic<size_t> runs_{0};
  std::atomic<size_t> calls_{0};
  Mutex mu_;
  std::string text_ ABSL_GUARDED_BY(mu_);
};

int RunMany(const Arguments& arguments) {
  const uint64_t first_seed = std::random_device()();
  Search search(arguments, first_seed);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&search] { search.Work(); });
  }
  for (std::thread& thread : threads) thread.join();
  return search.Report(first_seed);
}

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  const auto arguments = idempotency::Parse({argv + 1, argv + argc});
  if (!arguments.has_value()) {
    std::cerr << "usage: simulate [--seconds N] [--seed S] [--actions N] [--trace]\n";
    return 2;
  }
  return arguments->seed.has_value() ? idempotency::RunOne(*arguments)
                                     : idempotency::RunMany(*arguments);
}
