#include "tests/bench/results.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace idempotency::bench {
namespace {

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double NumberAt(const nlohmann::json& json, const std::string& path) {
  return json.value(nlohmann::json::json_pointer(path), 0.0);
}

}  // namespace

void Results::Add(const std::string& name, Contestant contestant, nlohmann::json measured) {
  measured_[{name, contestant}].push_back(std::move(measured));
}

bool Results::Has(const std::string& name, Contestant contestant) const {
  return measured_.contains({name, contestant});
}

std::optional<double> Results::Median(const std::string& name, Contestant contestant,
                                      const std::string& path) const {
  const auto found = measured_.find({name, contestant});
  if (found == measured_.end()) return std::nullopt;
  std::vector<double> values;
  for (const nlohmann::json& json : found->second) values.push_back(NumberAt(json, path));
  return MedianOf(std::move(values));
}

std::optional<double> Results::CpuMicrosPerCall(const std::string& name, Contestant contestant,
                                                const std::string& process) const {
  const auto found = measured_.find({name, contestant});
  if (found == measured_.end()) return std::nullopt;
  std::vector<double> values;
  for (const nlohmann::json& json : found->second) {
    values.push_back(1e6 * NumberAt(json, "/cpu_seconds/" + process) /
                     std::max(1.0, NumberAt(json, "/calls")));
  }
  return MedianOf(std::move(values));
}

std::vector<std::string> Results::Faults() const {
  std::vector<std::string> faults;
  for (const auto& [place, rounds] : measured_) {
    for (const nlohmann::json& json : rounds) {
      if (NumberAt(json, "/errors") + NumberAt(json, "/unexpected") == 0) continue;
      faults.push_back(absl::StrCat(
          place.first, ", ", ContestantName(place.second), ": ", json.value("errors", int64_t{0}),
          " errors (", json.value("first_error", std::string()), "), ",
          json.value("unexpected", int64_t{0}), " answers that were not expected, of ",
          json.value("calls", int64_t{0})));
    }
  }
  return faults;
}

nlohmann::json Results::ToJson() const {
  nlohmann::json all;
  for (const auto& [place, rounds] : measured_)
    all[place.first][ContestantName(place.second)] = rounds;
  return all;
}

}  // namespace idempotency::bench
