#include "tests/bench/experiments.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/status_macros.h"

namespace idempotency::bench {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr int kChurnCallsPerSecond = 8000;

std::vector<std::string> PairArguments(uint64_t records, const std::string& in_flight) {
  return {"--workload",          "pair",        "--lag",  "4096", "--pairs",
          absl::StrCat(records), "--in-flight", in_flight};
}

struct BytesPerRecord {
  double heap = 0;
  double index = 0;
  double total() const { return heap + index; }
};

absl::StatusOr<BytesPerRecord> BytesOf(Rig* rig, Contestant contestant, uint64_t records,
                                       bool response_id) {
  std::vector<std::string> arguments = PairArguments(records, "256");
  if (response_id) arguments.push_back("--response-id");
  RETURN_IF_ERROR(rig->Measure(contestant, arguments).status());
  RETURN_IF_ERROR(rig->VacuumAnalyze(contestant));
  ASSIGN_OR_RETURN(const TableSize size, rig->SizeOf(contestant));
  ASSIGN_OR_RETURN(const int64_t rows, rig->CountRows(contestant));
  const auto count = static_cast<double>(std::max<int64_t>(rows, 1));
  return BytesPerRecord{static_cast<double>(size.heap_bytes) / count,
                        static_cast<double>(size.index_bytes) / count};
}

Target NoMoreThan(std::optional<double> value, double required, std::optional<double> aim,
                  const std::string& unit) {
  return {.value = value, .at_most = true, .required = required, .aim = aim, .unit = unit};
}

// Latencies of the two loads that growth is judged by.
struct LatencyPair {
  double open_p99 = 0;
  double closed_p99 = 0;
};

absl::StatusOr<LatencyPair> Latencies(Rig* rig, const ServerUnderTest& server, double seconds) {
  const std::string duration = absl::StrCat(seconds);
  ASSIGN_OR_RETURN(const nlohmann::json open, rig->Load(server, {"--rate", "10000", "--warm-up",
                                                                 "2", "--duration", duration}));
  ASSIGN_OR_RETURN(
      const nlohmann::json closed,
      rig->Load(server, {"--in-flight", "256", "--warm-up", "2", "--duration", duration}));
  return LatencyPair{open["latency"]["p99_ms"], closed["latency"]["p99_ms"]};
}

Row GrowthRow(const std::string& measure, double empty, double full) {
  return {.measure = absl::StrFormat("%s (%.2f ms on an empty table)", measure, empty),
          .ours = full,
          .decimals = 2,
          .targets = {NoMoreThan(Ratio(full, empty), 1.3, 1.1, "× empty")}};
}

// p99 of Begins for other keys, at 1,000 a second over all of `replicas`.
absl::StatusOr<double> OthersP99(Rig* rig, std::vector<std::string> replicas, double seconds) {
  replicas.insert(replicas.end(), {"--channels", "3", "--rate", "1000", "--warm-up", "2",
                                   "--duration", absl::StrCat(seconds)});
  ASSIGN_OR_RETURN(const nlohmann::json load, rig->Run("load_generator", replicas));
  if (load["errors"] != 0 || load["unexpected"] != 0) {
    return absl::InternalError(absl::StrCat("beside the storms: ", load.dump()));
  }
  return load["latency"]["p99_ms"].get<double>();
}

}  // namespace

absl::StatusOr<std::vector<Row>> MeasureStorms(Rig* rig, int storms) {
  constexpr double kSecondsEach = 10;
  RETURN_IF_ERROR(rig->Reset());
  std::vector<std::unique_ptr<ServerUnderTest>> servers;
  std::vector<std::string> replicas;
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(servers.emplace_back(), rig->StartServer(Contestant::kOurs));
    replicas.insert(replicas.end(), {"--target", servers.back()->address()});
  }
  const double seconds = storms * kSecondsEach;
  ASSIGN_OR_RETURN(const double calm, OthersP99(rig, replicas, seconds));
  absl::StatusOr<nlohmann::json> stormed;
  std::thread storming([&] {
    std::vector<std::string> arguments = replicas;
    arguments.insert(arguments.end(), {"--storms", absl::StrCat(storms)});
    stormed = rig->Run("storm", arguments);
  });
  const absl::StatusOr<double> disturbed = OthersP99(rig, replicas, seconds);
  storming.join();
  RETURN_IF_ERROR(stormed.status());
  RETURN_IF_ERROR(disturbed.status());
  if (!(*stormed)["as_expected"].get<bool>()) {
    return absl::InternalError(absl::StrCat("a storm did not start one: ", stormed->dump()));
  }
  return std::vector<Row>{
      {.measure = absl::StrFormat("%d storms of 1,000 Begins for one key, 3 replicas, each started "
                                  "one: the slowest's last answer, ms",
                                  storms),
       .ours = (*stormed)["all_answered_ms"].get<double>(),
       .decimals = 1,
       .targets = {NoMoreThan((*stormed)["all_answered_ms"].get<double>(), 1000, std::nullopt,
                              "ms")}},
      {.measure = absl::StrFormat("other keys at 1,000/s, a storm every %.0f s: p99 ms (%.2f "
                                  "without storms)",
                                  kSecondsEach, calm),
       .ours = *disturbed,
       .decimals = 2,
       .targets = {NoMoreThan(Ratio(*disturbed, calm), 2, std::nullopt, "× without")}}};
}

absl::StatusOr<std::vector<Row>> MeasureBytes(Rig* rig, uint64_t records) {
  std::vector<Row> rows;
  for (const bool response_id : {false, true}) {
    ASSIGN_OR_RETURN(const BytesPerRecord plain,
                     BytesOf(rig, Contestant::kPlain, records, response_id));
    ASSIGN_OR_RETURN(const BytesPerRecord ours,
                     BytesOf(rig, Contestant::kOurs, records, response_id));
    const std::string what = absl::StrCat("bytes per record, ", records, " records",
                                          response_id ? ", with a response id of 20 bytes" : "");
    Row total = {.measure = what + ": heap and indexes",
                 .ours = ours.total(),
                 .plain = plain.total(),
                 .decimals = 1};
    if (!response_id)
      total.targets = {NoMoreThan(Ratio(ours.total(), plain.total()), 1, 0.92, "× plain")};
    rows.push_back(std::move(total));
    rows.push_back(
        {.measure = what + ": heap", .ours = ours.heap, .plain = plain.heap, .decimals = 1});
    rows.push_back(
        {.measure = what + ": indexes", .ours = ours.index, .plain = plain.index, .decimals = 1});
  }
  return rows;
}

absl::StatusOr<std::vector<Row>> MeasureGrowth(Rig* rig, uint64_t records, double seconds) {
  RETURN_IF_ERROR(rig->Reset());
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerUnderTest> server,
                   rig->StartServer(Contestant::kOurs));
  ASSIGN_OR_RETURN(const LatencyPair empty, Latencies(rig, *server, seconds));
  RETURN_IF_ERROR(rig->Reset());
  std::cerr << "bench: making " << records << " records" << std::endl;
  RETURN_IF_ERROR(rig->Load(*server, PairArguments(records, "1024")).status());
  RETURN_IF_ERROR(rig->VacuumAnalyze(Contestant::kOurs));
  RETURN_IF_ERROR(rig->Query("CHECKPOINT").status());
  ASSIGN_OR_RETURN(const LatencyPair full, Latencies(rig, *server, seconds));
  const std::string with = absl::StrCat(" with ", records, " records: p99 ms");
  return std::vector<Row>{
      GrowthRow("Begin, open loop 10,000/s" + with, empty.open_p99, full.open_p99),
      GrowthRow("Begin, 256 in flight" + with, empty.closed_p99, full.closed_p99)};
}

std::vector<std::string> ChurnFlags() {
  return {"--unsafe-test-bounds", "--ttl-min=1s", "--ttl-default=1m", "--replay-window=1m",
          "--purge-interval=1s"};
}

absl::StatusOr<std::vector<Row>> MeasureChurn(Rig* rig, double seconds) {
  RETURN_IF_ERROR(rig->Reset());
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerUnderTest> server,
                   rig->StartServer(Contestant::kOurs));
  std::vector<TableSize> sizes;
  std::atomic<bool> over = false;
  std::thread watching([&] {
    const absl::Time start = absl::Now();
    for (absl::Time due = start + absl::Minutes(1); !over;) {
      absl::SleepFor(absl::Milliseconds(200));
      if (absl::Now() < due) continue;
      due += absl::Minutes(1);
      const absl::StatusOr<TableSize> size = rig->SizeOf(Contestant::kOurs);
      if (!size.ok()) continue;
      sizes.push_back(*size);
      std::cerr << absl::StrFormat("bench: churn, %3.0f min: heap %.1f MiB, index %.1f MiB",
                                   absl::ToDoubleMinutes(absl::Now() - start),
                                   static_cast<double>(size->heap_bytes) / kMebibyte,
                                   static_cast<double>(size->index_bytes) / kMebibyte)
                << std::endl;
    }
  });
  const absl::StatusOr<nlohmann::json> load =
      rig->Load(*server, {"--workload", "pair", "--lag", "4096", "--rate",
                          absl::StrCat(kChurnCallsPerSecond), "--duration", absl::StrCat(seconds)});
  over = true;
  watching.join();
  RETURN_IF_ERROR(load.status());
  // The first quarter fills the table and lets its free space settle.
  if (sizes.size() < 4) return absl::FailedPreconditionError("churn needs some minutes");
  const TableSize early = sizes[sizes.size() / 4];
  const TableSize late = sizes.back();
  const auto row = [&](const std::string& what, int64_t before, int64_t after) {
    return Row{
        .measure = absl::StrFormat("churn of %.0f s, %s at the end, MiB (%.1f after a quarter)",
                                   seconds, what, static_cast<double>(before) / kMebibyte),
        .ours = static_cast<double>(after) / kMebibyte,
        .decimals = 1,
        .targets = {NoMoreThan(static_cast<double>(after) / static_cast<double>(before), 1.05, 1.02,
                               "× a quarter's")}};
  };
  return std::vector<Row>{row("heap", early.heap_bytes, late.heap_bytes),
                          row("index", early.index_bytes, late.index_bytes),
                          {.measure = absl::StrFormat("churn of %.0f s: Begin p99 ms", seconds),
                           .ours = (*load)["begin"]["p99_ms"].get<double>(),
                           .decimals = 2}};
}

}  // namespace idempotency::bench
