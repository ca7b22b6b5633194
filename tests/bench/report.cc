#include "tests/bench/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/bench/cases.h"

namespace idempotency::bench {
namespace {

enum class Mark { kNone, kMissed, kMet, kAim };

bool Holds(const Target& target, double bound) {
  return target.at_most ? *target.value <= bound : *target.value >= bound;
}

Mark MarkOf(const Target& target) {
  if (!target.value.has_value()) return Mark::kNone;
  if (!Holds(target, target.required)) return Mark::kMissed;
  return target.aim.has_value() && Holds(target, *target.aim) ? Mark::kAim : Mark::kMet;
}

// The worst of its targets' marks.
Mark MarkOf(const Row& row) {
  Mark worst = Mark::kNone;
  for (const Target& target : row.targets) {
    const Mark mark = MarkOf(target);
    if (mark == Mark::kNone) continue;
    worst = worst == Mark::kNone ? mark : std::min(worst, mark);
  }
  return worst;
}

const char* MarkText(Mark mark) {
  switch (mark) {
    case Mark::kNone:
      return "";
    case Mark::kMissed:
      return "**missed**";
    case Mark::kMet:
      return "met";
    case Mark::kAim:
      return "aim met";
  }
  return "";
}

std::string NumberText(std::optional<double> value, int decimals) {
  if (!value.has_value()) return "";
  std::string text = absl::StrFormat("%.*f", decimals, *value);
  // 38600 as 38,600.
  const size_t point = std::min(text.find('.'), text.size());
  for (size_t place = point; place > 3 && text[place - 4] != '-'; place -= 3)
    text.insert(place - 3, 1, ',');
  return text;
}

std::string RatioText(std::optional<double> ratio) {
  return ratio.has_value() ? absl::StrFormat("%.2f", *ratio) : "";
}

std::string BoundText(const Target& target, double bound) {
  return absl::StrCat(target.at_most ? "≤ " : "≥ ", bound, target.unit.empty() ? "" : " ",
                      target.unit);
}

Target AtLeast(std::optional<double> value, double required, std::optional<double> aim,
               const std::string& unit) {
  return {.value = value, .at_most = false, .required = required, .aim = aim, .unit = unit};
}

Target AtMost(std::optional<double> value, double required, std::optional<double> aim,
              const std::string& unit) {
  return {.value = value, .at_most = true, .required = required, .aim = aim, .unit = unit};
}

void AddBeginRows(const Results& results, std::vector<Row>* rows) {
  for (const int in_flight : kInFlight) {
    const std::string name = BeginCase(in_flight);
    Row rate = RowOf(results, name, "/calls_per_second", name + ": calls/s", 0);
    Row p50 = RowOf(results, name, "/latency/p50_ms", name + ": p50 ms", 2);
    Row p99 = RowOf(results, name, "/latency/p99_ms", name + ": p99 ms", 2);
    Row p999 = RowOf(results, name, "/latency/p999_ms", name + ": p99.9 ms", 2);
    if (in_flight == 1) p50.targets = {AtMost(Ratio(p50.ours, p50.plain), 1.15, 1.05, "× plain")};
    if (in_flight == 256) {
      rate.targets = {AtLeast(Ratio(rate.ours, rate.plain), 2.5, 3.5, "× plain"),
                      AtLeast(Ratio(rate.ours, rate.noop), 0.45, 0.65, "× no-op")};
      p99.targets = {AtMost(Ratio(p99.ours, p99.plain), 0.25, std::nullopt, "× plain")};
    }
    if (in_flight == 1024)
      rate.targets = {AtLeast(Ratio(rate.ours, rate.plain), 3, 3.6, "× plain")};
    for (Row* row : {&rate, &p50, &p99, &p999}) rows->push_back(*row);
  }
  for (const char* process : {"server", "postgres", "generator"}) {
    const auto cpu = [&](Contestant contestant) {
      return results.CpuMicrosPerCall(BeginCase(256), contestant, process);
    };
    rows->push_back({.measure = absl::StrCat(BeginCase(256), ": CPU µs a call, ", process),
                     .ours = cpu(Contestant::kOurs),
                     .plain = cpu(Contestant::kPlain),
                     .noop = cpu(Contestant::kNoop),
                     .decimals = 1});
  }
}

void AddOtherCalls(const Results& results, std::vector<Row>* rows) {
  const Row ceiling = RowOf(results, BeginCase(256), "/calls_per_second", "", 0);
  rows->push_back(RowOf(results, kPairs, "/complete/count", absl::StrCat(kPairs, ": pairs/s"), 0));
  for (std::optional<double>* value : {&rows->back().ours, &rows->back().plain}) {
    const Contestant contestant =
        value == &rows->back().ours ? Contestant::kOurs : Contestant::kPlain;
    *value = Ratio(*value, results.Median(kPairs, contestant, "/seconds"));
  }
  rows->push_back(
      RowOf(results, kPairs, "/begin/p99_ms", absl::StrCat(kPairs, ": Begin p99 ms"), 2));
  rows->push_back(
      RowOf(results, kPairs, "/complete/p99_ms", absl::StrCat(kPairs, ": Complete p99 ms"), 2));

  Row replay =
      RowOf(results, kReplays, "/calls_per_second", absl::StrCat(kReplays, ": calls/s"), 0);
  replay.noop = ceiling.noop;
  replay.targets = {AtLeast(Ratio(replay.ours, replay.noop), 0.85, 0.95, "× no-op")};
  rows->push_back(replay);
  rows->push_back(
      RowOf(results, kReplays, "/latency/p99_ms", absl::StrCat(kReplays, ": p99 ms"), 2));

  for (const char* name : {kFewDuplicates, kManyDuplicates}) {
    rows->push_back(RowOf(results, name, "/calls_per_second", absl::StrCat(name, ": calls/s"), 0));
    rows->push_back(RowOf(results, name, "/latency/p99_ms", absl::StrCat(name, ": p99 ms"), 2));
  }
}

void AddOpenLoopRows(const Results& results, std::vector<Row>* rows) {
  for (const bool is_slow : {true, false}) {
    const std::string name = is_slow ? kOpenSlow : kOpenFast;
    rows->push_back(RowOf(results, name, "/latency/p50_ms", name + ": p50 ms", 2));
    Row p99 = RowOf(results, name, "/latency/p99_ms", name + ": p99 ms", 2);
    p99.targets = {is_slow ? AtMost(p99.ours, 3, 2, "ms") : AtMost(p99.ours, 12, 6, "ms")};
    rows->push_back(p99);
    rows->push_back(RowOf(results, name, "/latency/p999_ms", name + ": p99.9 ms", 2));
    rows->push_back(RowOf(results, name, "/sent_late/p99_ms",
                          name + ": of it, sent late by the generator, p99 ms", 2));
  }
}

void AddMemoryRows(const Results& results, std::vector<Row>* rows) {
  constexpr double kMebibyte = 1.0 / (1 << 20);
  const std::string path = "/peak_resident_bytes/server";
  rows->push_back(RowOf(results, BeginCase(1024), path,
                        BeginCase(1024) + ": server's peak memory, MiB", 0, kMebibyte));
  Row bodies = RowOf(results, kBodies, path, absl::StrCat(kBodies, ": server's peak memory, MiB"),
                     0, kMebibyte);
  bodies.targets = {AtMost(bodies.ours, 256, std::nullopt, "MiB")};
  rows->push_back(bodies);
  rows->push_back(RowOf(results, kLargestBodies, path,
                        absl::StrCat(kLargestBodies, ": server's peak memory, MiB"), 0, kMebibyte));
  rows->push_back(RowOf(results, kLargestBodies, "/errors",
                        absl::StrCat(kLargestBodies, ": calls refused (OVERLOADED)"), 0));
}

}  // namespace

Row RowOf(const Results& results, const std::string& name, const std::string& path,
          const std::string& measure, int decimals, double scale) {
  const auto value = [&](Contestant contestant) {
    std::optional<double> median = results.Median(name, contestant, path);
    if (median.has_value()) *median *= scale;
    return median;
  };
  return {.measure = measure,
          .ours = value(Contestant::kOurs),
          .plain = value(Contestant::kPlain),
          .noop = value(Contestant::kNoop),
          .decimals = decimals};
}

std::optional<double> Ratio(std::optional<double> part, std::optional<double> whole) {
  if (!part.has_value() || !whole.has_value() || *whole == 0) return std::nullopt;
  return *part / *whole;
}

std::vector<Row> StandardRows(const Results& results) {
  std::vector<Row> rows;
  AddBeginRows(results, &rows);
  AddOtherCalls(results, &rows);
  AddOpenLoopRows(results, &rows);
  AddMemoryRows(results, &rows);
  std::erase_if(rows,
                [](const Row& row) { return !row.ours.has_value() && !row.plain.has_value(); });
  return rows;
}

std::string FormatTable(const std::vector<Row>& rows) {
  std::string table =
      "| measure | ours | plain | no-op | ours ÷ plain | ours ÷ no-op | required | aim | result |\n"
      "|---|---:|---:|---:|---:|---:|---|---|---|\n";
  for (const Row& row : rows) {
    std::vector<std::string> required;
    std::vector<std::string> aim;
    for (const Target& target : row.targets) {
      required.push_back(BoundText(target, target.required));
      if (target.aim.has_value()) aim.push_back(BoundText(target, *target.aim));
    }
    absl::StrAppend(&table, "| ", row.measure, " | ", NumberText(row.ours, row.decimals), " | ",
                    NumberText(row.plain, row.decimals), " | ", NumberText(row.noop, row.decimals),
                    " | ", RatioText(Ratio(row.ours, row.plain)), " | ",
                    RatioText(Ratio(row.ours, row.noop)), " | ", absl::StrJoin(required, ", "),
                    " | ", absl::StrJoin(aim, ", "), " | ", MarkText(MarkOf(row)), " |\n");
  }
  return table;
}

std::vector<std::string> Missed(const std::vector<Row>& rows) {
  std::vector<std::string> missed;
  for (const Row& row : rows) {
    if (MarkOf(row) == Mark::kMissed) missed.push_back(row.measure);
  }
  return missed;
}

}  // namespace idempotency::bench
