#include "server/ops/exposition.h"

#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "prometheus/text_serializer.h"
#include "server/base/check.h"
#include "server/ops/process_stats.h"

namespace idempotency {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// `name{label="value",…}` of a row of metrics.h, taken apart.
struct SeriesName {
  std::string family;
  Labels labels;
};

SeriesName ParseName(absl::string_view exported) {
  const size_t brace = exported.find('{');
  SeriesName name{std::string(exported.substr(0, brace)), {}};
  if (brace == absl::string_view::npos) return name;
  absl::string_view inside = exported.substr(brace + 1);
  IDEM_CHECK(absl::ConsumeSuffix(&inside, "}")) << exported << " does not end in }";
  for (const absl::string_view one : absl::StrSplit(inside, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(one, absl::MaxSplits("=\"", 1));
    ClientMetric::Label label;
    label.name = std::string(parts.first);
    label.value = std::string(absl::StripSuffix(parts.second, "\""));
    name.labels.push_back(std::move(label));
  }
  return name;
}

class Families {
 public:
  // Rows of a family stand together in the tables, so the last family is looked at alone.
  ClientMetric& Series(SeriesName name, absl::string_view help, MetricType type) {
    if (families_.empty() || families_.back().name != name.family) {
      families_.push_back({std::move(name.family), std::string(help), type, {}});
    }
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(name.labels);
    return metric;
  }
  void Counter(SeriesName name, absl::string_view help, double value) {
    Series(std::move(name), help, MetricType::Counter).counter.value = value;
  }
  void Gauge(SeriesName name, absl::string_view help, double value) {
    Series(std::move(name), help, MetricType::Gauge).gauge.value = value;
  }
  void Distribution(SeriesName name, absl::string_view help, const Histogram& histogram) {
    ClientMetric::Histogram& shown = Series(std::move(name), help, MetricType::Histogram).histogram;
    const HistogramBounds& bounds = histogram.bounds();
    uint64_t count = 0;
    for (size_t i = 0; i <= bounds.upper.size(); ++i) {
      count += histogram.CountIn(i);
      const double bound = i < bounds.upper.size()
                               ? static_cast<double>(bounds.upper[i]) / bounds.per_unit
                               : std::numeric_limits<double>::infinity();
      shown.bucket.push_back({count, bound});
    }
    // The same number as in the last bucket, whatever is counted meanwhile.
    shown.sample_count = count;
    shown.sample_sum = static_cast<double>(histogram.Sum()) / bounds.per_unit;
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

Labels RpcLabels(RpcMethod method) {
  return {{"grpc_type", "unary"},
          {"grpc_service", "idempotency.v1.IdempotencyService"},
          {"grpc_method", std::string(RpcMethodName(method))}};
}

void AddRpc(const RpcMetrics& rpc, Families* families) {
  for (size_t i = 0; i < kRpcMethods; ++i) {
    const auto method = static_cast<RpcMethod>(i);
    families->Counter({"grpc_server_started_total", RpcLabels(method)},
                      "calls that reached the service's code",
                      static_cast<double>(rpc.StartedCount(method)));
  }
  for (size_t i = 0; i < kRpcMethods; ++i) {
    const auto method = static_cast<RpcMethod>(i);
    for (size_t code = 0; code < kRpcCodes; ++code) {
      Labels labels = RpcLabels(method);
      labels.push_back({"grpc_code", std::string(kRpcCodeNames[code])});
      families->Counter({"grpc_server_handled_total", std::move(labels)},
                        "calls answered, whatever the answer",
                        static_cast<double>(rpc.HandledCount(method, code)));
    }
  }
  for (size_t i = 0; i < kRpcMethods; ++i) {
    const auto method = static_cast<RpcMethod>(i);
    families->Distribution({"grpc_server_handling_seconds", RpcLabels(method)},
                           "from a call's arrival to its answer, waits included", rpc.Took(method));
  }
}

void AddLanes(const Metrics& metrics, Families* families) {
  for (size_t i = 0; i < static_cast<size_t>(LaneMetric::kCount); ++i) {
    const auto metric = static_cast<LaneMetric>(i);
    const MetricText text = Metrics::Text(metric);
    const auto add = [&](size_t lane, std::string label) {
      const double value =
          static_cast<double>(metrics.Value(metric, lane)) / Metrics::PerUnit(metric);
      SeriesName name{std::string(text.exported), {{"lane", std::move(label)}}};
      if (absl::EndsWith(text.exported, "_total")) {
        families->Counter(std::move(name), text.help, value);
      } else {
        families->Gauge(std::move(name), text.help, value);
      }
    };
    for (size_t lane = 0; lane < metrics.lanes(); ++lane) add(lane, absl::StrCat(lane));
    add(kSlowLaneNumber, "slow");
  }
}

void AddProcess(const ProcessStats& stats, Families* families) {
  families->Counter({"process_cpu_seconds_total", {}}, "user and system CPU time spent",
                    stats.cpu_seconds);
  families->Gauge({"process_resident_memory_bytes", {}}, "resident memory",
                  static_cast<double>(stats.resident_bytes));
  families->Gauge({"process_virtual_memory_bytes", {}}, "virtual memory",
                  static_cast<double>(stats.virtual_bytes));
  families->Gauge({"process_open_fds", {}}, "open file descriptors",
                  static_cast<double>(stats.open_fds));
  families->Gauge({"process_max_fds", {}}, "file descriptors that may be open",
                  static_cast<double>(stats.max_fds));
  families->Gauge({"process_threads", {}}, "threads", static_cast<double>(stats.threads));
  families->Gauge({"process_start_time_seconds", {}}, "start, in seconds of the Unix epoch",
                  stats.start_time_seconds);
}

}  // namespace

Exposition::Exposition(const Metrics* metrics, BuildInfo build)
    : metrics_(metrics), build_(std::move(build)) {}

std::vector<MetricFamily> Exposition::Collect() const {
  Families families;
  families.Gauge(
      {"idempotency_build_info", {{"version", build_.version}, {"commit", build_.commit}}},
      "always 1; the labels say what runs", 1);
  AddRpc(metrics_->rpc(), &families);
  for (size_t i = 0; i < static_cast<size_t>(Metric::kCount); ++i) {
    const auto metric = static_cast<Metric>(i);
    const MetricText text = Metrics::Text(metric);
    const auto value = static_cast<double>(metrics_->Value(metric));
    if (Metrics::IsCounter(metric)) {
      families.Counter(ParseName(text.exported), text.help, value);
    } else {
      families.Gauge(ParseName(text.exported), text.help, value);
    }
  }
  AddLanes(*metrics_, &families);
  for (size_t i = 0; i < static_cast<size_t>(HistogramMetric::kCount); ++i) {
    const auto metric = static_cast<HistogramMetric>(i);
    const MetricText text = Metrics::Text(metric);
    families.Distribution(ParseName(text.exported), text.help, metrics_->Of(metric));
  }
  AddProcess(ReadProcessStats(), &families);
  return families.Take();
}

std::string Exposition::Text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, Collect());
  return std::move(out).str();
}

}  // namespace idempotency
