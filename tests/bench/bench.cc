// bench: measures the service against the plain server, the no-op ceiling and pgbench, on this
// machine, in one run, and prints one table in Markdown. `./dev bench` builds and runs it;
// docs/benchmarks.md explains the rows.
//
// Exits with 0, with 1 when something broke, and with 3 when the run is void: the plain server must
// reach 0.85 of pgbench's rate, or the yardstick is too short.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status_macros.h"
#include "tests/bench/cases.h"
#include "tests/bench/experiments.h"
#include "tests/bench/report.h"
#include "tests/bench/results.h"
#include "tests/bench/rig.h"

namespace idempotency::bench {
namespace {

constexpr double kPlainOfFloor = 0.85;
// The floor is pgbench as it is without options. With prepared statements it is no floor for a
// server on the same processors: gRPC's two sides of a call alone cost more than what 0.85 leaves.
constexpr char kFloorProtocol[] = "simple";
// Above this share of the processors taken by others, figures mean little.
constexpr double kForeignShare = 0.05;

std::string FloorCase(const std::string& protocol) {
  return absl::StrCat("single-row INSERT by pgbench, 16 clients, ", protocol, " protocol");
}

struct Options {
  RigOptions rig;
  bool quick = false;
  int rounds = 0;
  std::string only;
  uint64_t growth_records = 0;
  double churn_seconds = 0;
  std::string output;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  const std::string self = argv[0];
  options.rig.programs =
      std::filesystem::absolute(std::filesystem::path(self).parent_path()).string();
  options.rig.server = options.rig.programs + "/../../server/idempotencyd";
  CLI::App app("Measures the service on this machine and prints one table", "bench");
  app.add_flag("--quick", options.quick,
               "one short round, and bytes of 100,000 records: for a first look");
  app.add_option("--rounds", options.rounds, "rounds of which the medians are printed (3)");
  app.add_option("--only", options.only, "only measurements whose name contains this text");
  app.add_flag("--slow-disk", options.rig.slow_disk,
               "every fsync of PostgreSQL takes 2 ms longer; Begin only");
  app.add_option("--records", options.growth_records,
                 "instead: latency with so many records in the table");
  app.add_option("--churn", options.churn_seconds,
                 "instead: so many seconds of records that expire after a minute");
  app.add_option("--server-flag", options.rig.server_flags,
                 "given to idempotencyd serve, any number");
  app.add_option("--output", options.output, "file for every round's figures, as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (options.rounds == 0) options.rounds = options.quick ? 1 : 3;
  if (options.churn_seconds > 0) {
    for (const std::string& flag : ChurnFlags()) options.rig.server_flags.push_back(flag);
  }
  return options;
}

absl::Status RunRounds(const Options& options, Rig* rig, Results* results) {
  const CaseOptions case_options = {.seconds = options.quick ? 2.0 : 4.0,
                                    .open_loop_seconds = options.quick ? 4.0 : 10.0,
                                    .begin_only = options.rig.slow_disk};
  const std::vector<Case> cases = StandardCases(case_options);
  for (int round = 0; round < options.rounds; ++round) {
    for (const char* protocol : {kFloorProtocol, "prepared"}) {
      ASSIGN_OR_RETURN(const double floor,
                       rig->Pgbench(protocol, static_cast<int>(case_options.seconds)));
      std::cerr << absl::StrFormat("bench: round %d, pgbench, %s protocol: %.0f/s", round + 1,
                                   protocol, floor)
                << std::endl;
      results->Add(FloorCase(protocol), Contestant::kPlain, {{"tps", floor}});
    }
    for (const Case& one : cases) {
      if (one.first_round_only && round > 0) continue;
      if (one.name.find(options.only) == std::string::npos) continue;
      std::vector<std::string> arguments = one.arguments;
      arguments.insert(arguments.end(), {"--duration", absl::StrCat(one.seconds)});
      for (const Contestant contestant : one.contestants) {
        ASSIGN_OR_RETURN(nlohmann::json measured, rig->Measure(contestant, arguments));
        std::cerr << absl::StrFormat("bench: round %d, %s, %s: %.0f/s, p50 %.2f, p99 %.2f ms",
                                     round + 1, one.name, ContestantName(contestant),
                                     measured["calls_per_second"].get<double>(),
                                     measured["latency"]["p50_ms"].get<double>(),
                                     measured["latency"]["p99_ms"].get<double>())
                  << std::endl;
        results->Add(one.name, contestant, std::move(measured));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Row>> RunExperiments(const Options& options, Rig* rig,
                                                Results* results) {
  if (options.churn_seconds > 0) return MeasureChurn(rig, options.churn_seconds);
  if (options.growth_records > 0)
    return MeasureGrowth(rig, options.growth_records, options.quick ? 4 : 10);
  RETURN_IF_ERROR(RunRounds(options, rig, results));
  std::vector<Row> rows;
  for (const char* protocol : {kFloorProtocol, "prepared"}) {
    rows.push_back(
        RowOf(*results, FloorCase(protocol), "/tps", FloorCase(protocol) + ": calls/s", 0));
  }
  for (Row& row : StandardRows(*results)) rows.push_back(std::move(row));
  const auto is_chosen = [&](const std::string& name) {
    const bool chosen = !options.rig.slow_disk && name.find(options.only) != std::string::npos;
    if (chosen) std::cerr << "bench: " << name << std::endl;
    return chosen;
  };
  if (is_chosen("storms")) {
    ASSIGN_OR_RETURN(const std::vector<Row> storms, MeasureStorms(rig, options.quick ? 1 : 3));
    rows.insert(rows.end(), storms.begin(), storms.end());
  }
  if (is_chosen("bytes per record")) {
    ASSIGN_OR_RETURN(const std::vector<Row> bytes,
                     MeasureBytes(rig, options.quick ? 100'000 : 1'000'000));
    rows.insert(rows.end(), bytes.begin(), bytes.end());
  }
  return rows;
}

// Prints what must be known to believe the table. False: the run is void.
bool PrintRemarks(const Results& results, const std::vector<Row>& rows, double foreign) {
  for (const std::string& missed : Missed(rows)) std::cout << "Missed: " << missed << "\n";
  for (const std::string& fault : results.Faults())
    std::cout << "Not as expected: " << fault << "\n";
  std::cout << absl::StrFormat("Other processes took at most %.1f %% of the processors%s.\n",
                               100 * foreign,
                               foreign > kForeignShare ? ": THE FIGURES ARE DISTURBED" : "");
  const std::optional<double> plain =
      Ratio(results.Median(BeginCase(256), Contestant::kPlain, "/calls_per_second"),
            results.Median(FloorCase(kFloorProtocol), Contestant::kPlain, "/tps"));
  if (!plain.has_value()) return true;
  const bool is_void = *plain < kPlainOfFloor;
  std::cout << absl::StrFormat(
      "The plain server reaches %.2f of pgbench (at least %.2f, or the run is void)%s.\n", *plain,
      kPlainOfFloor, is_void ? ": VOID" : "");
  return !is_void;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  absl::StatusOr<std::unique_ptr<Rig>> rig = Rig::Start(options.rig);
  if (!rig.ok()) {
    std::cerr << "bench: " << rig.status().message() << std::endl;
    return 1;
  }
  Results results;
  const absl::StatusOr<std::vector<Row>> rows = RunExperiments(options, rig->get(), &results);
  if (!rows.ok()) {
    std::cerr << "bench: " << rows.status().message() << std::endl;
    return 1;
  }
  std::cout << FormatTable(*rows) << "\n";
  const bool counts = PrintRemarks(results, *rows, (*rig)->greatest_foreign_share());
  if (!options.output.empty()) std::ofstream(options.output) << results.ToJson().dump(1) << "\n";
  return counts ? 0 : 3;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
