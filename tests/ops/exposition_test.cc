#include "server/ops/exposition.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ops/strict_exposition.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ExpositionTest : public testing::Test {
 protected:
  ExpositionTest() { metrics_.SetLanes(2); }

  ParsedExposition Read() { return ParseStrictly(exposition_.Text()); }

  Metrics metrics_;
  Exposition exposition_{&metrics_, {"1.2.3", "abc"}};
};

TEST_F(ExpositionTest, IsRightBeforeAnyCall) { EXPECT_THAT(Read().mistakes, IsEmpty()); }

TEST_F(ExpositionTest, EverythingButTheProcessIsZeroBeforeAnyCall) {
  for (const auto& [name, family] : Read().families) {
    if (absl::StartsWith(name, "process_") || name == "idempotency_build_info") continue;
    for (const auto& [sample, value] : family.samples) EXPECT_EQ(value, 0) << sample;
  }
}

TEST_F(ExpositionTest, EveryMethodAndCodeIsThereFromTheStart) {
  const ParsedExposition parsed = Read();
  const std::string kLabels =
      "grpc_type=\"unary\",grpc_service=\"idempotency.v1.IdempotencyService\",grpc_method=\"";
  for (const absl::string_view method : kRpcMethodNames) {
    EXPECT_EQ(parsed.Value(absl::StrCat("grpc_server_started_total{", kLabels, method, "\"}")), 0);
    EXPECT_EQ(
        parsed.Value(absl::StrCat("grpc_server_handling_seconds_count{", kLabels, method, "\"}")),
        0);
    for (const absl::string_view code : kRpcCodeNames) {
      EXPECT_EQ(parsed.Value(absl::StrCat("grpc_server_handled_total{", kLabels, method,
                                          "\",grpc_code=\"", code, "\"}")),
                0);
    }
  }
  EXPECT_EQ(parsed.families.at("grpc_server_handled_total").samples.size(), 5u * 17u);
}

TEST_F(ExpositionTest, EveryRowOfTheTablesIsThereWithItsTypeAndHelp) {
  const ParsedExposition parsed = Read();
  const auto expect = [&](const MetricText& text, const std::string& type) {
    const std::string exported(text.exported);
    const auto family = parsed.families.find(exported.substr(0, exported.find('{')));
    ASSERT_NE(family, parsed.families.end()) << exported;
    EXPECT_EQ(family->second.type, type) << exported;
    EXPECT_EQ(family->second.help, std::string(text.help)) << exported;
  };
  for (size_t i = 0; i < static_cast<size_t>(Metric::kCount); ++i) {
    const auto metric = static_cast<Metric>(i);
    expect(Metrics::Text(metric), Metrics::IsCounter(metric) ? "counter" : "gauge");
    EXPECT_EQ(parsed.Value(std::string(Metrics::Text(metric).exported)), 0)
        << Metrics::Text(metric).exported;
  }
  for (size_t i = 0; i < static_cast<size_t>(HistogramMetric::kCount); ++i) {
    expect(Metrics::Text(static_cast<HistogramMetric>(i)), "histogram");
  }
  for (size_t i = 0; i < static_cast<size_t>(LaneMetric::kCount); ++i) {
    const MetricText text = Metrics::Text(static_cast<LaneMetric>(i));
    expect(text, absl::EndsWith(text.exported, "_total") ? "counter" : "gauge");
  }
}

TEST_F(ExpositionTest, OurOwnNamesBeginWithOurName) {
  for (const auto& [name, family] : Read().families) {
    EXPECT_TRUE(absl::StartsWith(name, "idempotency_") || absl::StartsWith(name, "grpc_server_") ||
                absl::StartsWith(name, "process_"))
        << name;
  }
}

TEST_F(ExpositionTest, NoLabelNamesWhatACallerChooses) {
  const std::set<std::string> kForbidden = {"merchant", "merchant_id", "key",       "operation",
                                            "attempt",  "attempt_id",  "record_id", "trace_id"};
  const std::regex label("[{,]([a-z_]+)=\"");
  const std::string text = exposition_.Text();
  for (std::sregex_iterator it(text.begin(), text.end(), label), end; it != end; ++it) {
    EXPECT_EQ(kForbidden.count((*it)[1].str()), 0u) << it->str();
  }
}

TEST_F(ExpositionTest, ShowsWhatWasCounted) {
  metrics_.Add(Metric::kFencingRefused, 3);
  metrics_.Add(Metric::kCallsInFlight, 5);
  metrics_.Add(Metric::kCallsInFlight, -1);
  metrics_.rpc().Started(RpcMethod::kComplete);
  metrics_.rpc().Handled(RpcMethod::kComplete, 9, absl::Milliseconds(4));
  const ParsedExposition parsed = Read();
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  EXPECT_EQ(parsed.Value("idempotency_fencing_refused_total"), 3);
  EXPECT_EQ(parsed.Value("idempotency_calls_in_flight"), 4);
  const std::string kLabels =
      "grpc_type=\"unary\",grpc_service=\"idempotency.v1.IdempotencyService\","
      "grpc_method=\"Complete\"";
  EXPECT_EQ(parsed.Value("grpc_server_started_total{" + kLabels + "}"), 1);
  EXPECT_EQ(
      parsed.Value("grpc_server_handled_total{" + kLabels + ",grpc_code=\"FailedPrecondition\"}"),
      1);
  EXPECT_EQ(parsed.Value("grpc_server_handling_seconds_bucket{" + kLabels + ",le=\"0.003\"}"), 0);
  EXPECT_EQ(parsed.Value("grpc_server_handling_seconds_bucket{" + kLabels + ",le=\"0.005\"}"), 1);
  EXPECT_DOUBLE_EQ(parsed.Value("grpc_server_handling_seconds_sum{" + kLabels + "}"), 0.004);
}

TEST_F(ExpositionTest, HistogramIsCumulativeAndInItsUnit) {
  metrics_.Observe(HistogramMetric::kBatchSizeOwner, int64_t{1});
  metrics_.Observe(HistogramMetric::kBatchSizeOwner, int64_t{3});
  metrics_.Observe(HistogramMetric::kBatchSizeOwner, int64_t{100'000});
  metrics_.Observe(HistogramMetric::kFlushOwner, absl::Milliseconds(1500));
  const ParsedExposition parsed = Read();
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  const std::string kBucket = "idempotency_batch_size_items_bucket{kind=\"owner\",le=\"";
  EXPECT_EQ(parsed.Value(kBucket + "1\"}"), 1);
  EXPECT_EQ(parsed.Value(kBucket + "4\"}"), 2);
  EXPECT_EQ(parsed.Value(kBucket + "4096\"}"), 2);
  EXPECT_EQ(parsed.Value(kBucket + "+Inf\"}"), 3);
  EXPECT_EQ(parsed.Value("idempotency_batch_size_items_sum{kind=\"owner\"}"), 100'004);
  EXPECT_EQ(parsed.Value("idempotency_batch_size_items_count{kind=\"begin\"}"), 0);
  EXPECT_DOUBLE_EQ(parsed.Value("idempotency_batch_flush_duration_seconds_sum{kind=\"owner\"}"),
                   1.5);
}

TEST_F(ExpositionTest, LanesThatRunAreShownAndTheSlowOne) {
  metrics_.Add(LaneMetric::kQueuedItems, 1, 7);
  metrics_.Add(LaneMetric::kBusyMicros, kSlowLaneNumber, 2'500'000);
  const ParsedExposition parsed = Read();
  EXPECT_EQ(parsed.Value("idempotency_queue_items{lane=\"0\"}"), 0);
  EXPECT_EQ(parsed.Value("idempotency_queue_items{lane=\"1\"}"), 7);
  EXPECT_EQ(parsed.Value("idempotency_queue_items{lane=\"2\"}"), -1);
  EXPECT_EQ(parsed.Value("idempotency_lane_busy_seconds_total{lane=\"slow\"}"), 2.5);
}

TEST_F(ExpositionTest, SaysWhatRuns) {
  EXPECT_EQ(Read().Value("idempotency_build_info{version=\"1.2.3\",commit=\"abc\"}"), 1);
}

TEST_F(ExpositionTest, HasTheMetricsOfEveryProcess) {
  const ParsedExposition parsed = Read();
  EXPECT_GT(parsed.Value("process_resident_memory_bytes"), 0);
  EXPECT_GE(parsed.Value("process_cpu_seconds_total"), 0);
  EXPECT_GT(parsed.Value("process_open_fds"), 0);
  EXPECT_GT(parsed.Value("process_start_time_seconds"), 0);
}

// What the page must have between its two marks.
std::string DocumentedTable(const std::vector<prometheus::MetricFamily>& families) {
  std::string table = "| metric | type | labels | what |\n|---|---|---|---|\n";
  for (const prometheus::MetricFamily& family : families) {
    const std::string type = family.type == prometheus::MetricType::Counter ? "counter"
                             : family.type == prometheus::MetricType::Gauge ? "gauge"
                                                                            : "histogram";
    std::string labels;
    for (const auto& label : family.metric.front().label) {
      absl::StrAppend(&labels, labels.empty() ? "" : ", ", label.name);
    }
    absl::StrAppend(&table, "| `", family.name, "` | ", type, " | ", labels, " | ", family.help,
                    " |\n");
  }
  return table;
}

TEST_F(ExpositionTest, EveryFamilyIsInTheDocumentation) {
  std::ifstream file(IDEM_SOURCE_DIR "/docs/operations/observability.md", std::ios::binary);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::string begin = "<!-- metrics -->\n";
  const size_t at = page.find(begin);
  const size_t end = page.find("<!-- end of metrics -->");
  ASSERT_NE(at, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(page.substr(at + begin.size(), end - at - begin.size()),
            DocumentedTable(exposition_.Collect()))
      << "a metric's row in server/base/metrics.h has its line in docs/operations/observability.md";
}

TEST_F(ExpositionTest, NumbersDoNotDependOnTheLocale) {
  metrics_.Add(Metric::kPurged, 1'234'567);
  EXPECT_THAT(exposition_.Text(), HasSubstr("idempotency_purged_total 1234567\n"));
}

}  // namespace
}  // namespace idempotency
