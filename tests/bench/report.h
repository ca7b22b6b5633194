// The one table that a run prints: what was measured of whom, as ratios too, beside what the
// specification asks for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/results.h"

namespace idempotency::bench {

// What a row is held to: `value` is a ratio or the number itself.
struct Target {
  std::optional<double> value;
  bool at_most = false;  // else at least
  double required = 0;
  std::optional<double> aim;
  std::string unit;  // "× plain"
};

struct Row {
  std::string measure;
  std::optional<double> ours;
  std::optional<double> plain;
  std::optional<double> noop;
  int decimals = 0;
  std::vector<Target> targets;
};

// A row of one number of one measurement for each contestant that has it.
Row RowOf(const Results& results, const std::string& name, const std::string& path,
          const std::string& measure, int decimals, double scale = 1);

// Ratios, nothing when a part is missing or zero.
std::optional<double> Ratio(std::optional<double> part, std::optional<double> whole);

// The rows of the standard run; bytes, growth and churn add their own.
std::vector<Row> StandardRows(const Results& results);

// Markdown.
std::string FormatTable(const std::vector<Row>& rows);

// Rows whose required column is missed, by name.
std::vector<std::string> Missed(const std::vector<Row>& rows);

}  // namespace idempotency::bench
