// The measurements of a run, by what was measured and of whom, a value for each round.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/rig.h"

namespace idempotency::bench {

class Results {
 public:
  // What the load generator printed.
  void Add(const std::string& name, Contestant contestant, nlohmann::json measured);

  bool Has(const std::string& name, Contestant contestant) const;
  // The median over the rounds of a number in what was measured; `path` is a JSON pointer. Nothing
  // when it was not measured.
  std::optional<double> Median(const std::string& name, Contestant contestant,
                               const std::string& path) const;
  // As Median: CPU time of `process` (server, postgres, generator) in microseconds a call.
  std::optional<double> CpuMicrosPerCall(const std::string& name, Contestant contestant,
                                         const std::string& process) const;

  // Measurements in which answers failed or were not what the workload expects: each in a line.
  std::vector<std::string> Faults() const;
  nlohmann::json ToJson() const;

 private:
  using Place = std::pair<std::string, Contestant>;
  std::map<Place, std::vector<nlohmann::json>> measured_;
};

}  // namespace idempotency::bench
