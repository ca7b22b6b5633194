#include "tests/bench/cases.h"

namespace idempotency::bench {
namespace {

using Contestants = std::vector<Contestant>;

// Attempts at work at a time: with some thousands of pairs a second, work of about a second.
constexpr char kLag[] = "4096";

}  // namespace

std::vector<Case> StandardCases(const CaseOptions& options) {
  // The ceiling first, ours last: what a machine does as it warms up or slows down is not in our
  // favour.
  const Contestants all = {Contestant::kNoop, Contestant::kPlain, Contestant::kOurs};
  const Contestants servers = {Contestant::kPlain, Contestant::kOurs};
  const Contestants ours = {Contestant::kOurs};
  std::vector<Case> cases;
  for (const int in_flight : kInFlight) {
    cases.push_back({BeginCase(in_flight),
                     all,
                     {"--in-flight", absl::StrCat(in_flight)},
                     options.seconds,
                     false});
  }
  cases.push_back({kOpenSlow, servers, {"--rate", "750"}, options.open_loop_seconds, false});
  cases.push_back({kOpenFast, servers, {"--rate", "10000"}, options.open_loop_seconds, false});
  if (options.begin_only) return cases;
  cases.push_back({kPairs, servers, {"--workload", "pair", "--lag", kLag}, options.seconds, false});
  cases.push_back({kReplays, ours, {"--workload", "replay"}, options.seconds, false});
  cases.push_back({kFewDuplicates,
                   servers,
                   {"--workload", "duplicate", "--duplicates", "0.005"},
                   options.seconds,
                   false});
  cases.push_back({kManyDuplicates,
                   servers,
                   {"--workload", "duplicate", "--duplicates", "0.5"},
                   options.seconds,
                   false});
  const auto with_bodies = [&](const char* name, const char* bytes) {
    cases.push_back(
        {name,
         ours,
         {"--workload", "pair", "--lag", kLag, "--in-flight", "1024", "--body-bytes", bytes},
         options.seconds,
         true});
  };
  with_bodies(kBodies, "4096");
  with_bodies(kLargestBodies, "262144");
  return cases;
}

}  // namespace idempotency::bench
