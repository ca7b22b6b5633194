// The measurements of a standard run, by name.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/rig.h"

namespace idempotency::bench {

inline constexpr int kInFlight[] = {1, 16, 64, 256, 1024};
inline std::string BeginCase(int in_flight) {
  return absl::StrCat("Begin, ", in_flight, " in flight");
}

inline constexpr char kPairs[] = "Begin + Complete, 256 in flight";
inline constexpr char kReplays[] = "replay, 256 in flight";
inline constexpr char kFewDuplicates[] = "Begin, 0.5 % duplicates, 256 in flight";
inline constexpr char kManyDuplicates[] = "Begin, 50 % duplicates, 256 in flight";
inline constexpr char kOpenSlow[] = "Begin, open loop 750/s";
inline constexpr char kOpenFast[] = "Begin, open loop 10,000/s";
inline constexpr char kBodies[] = "Begin + Complete, 1024 in flight, bodies of 4 KiB";
inline constexpr char kLargestBodies[] = "Begin + Complete, 1024 in flight, bodies of 256 KiB";

struct Case {
  std::string name;
  std::vector<Contestant> contestants;
  // The load generator's arguments.
  std::vector<std::string> arguments;
  double seconds = 0;
  bool first_round_only = false;
};

struct CaseOptions {
  double seconds = 4;
  double open_loop_seconds = 10;
  // Begin and the open loop only.
  bool begin_only = false;
};
std::vector<Case> StandardCases(const CaseOptions& options);

}  // namespace idempotency::bench
