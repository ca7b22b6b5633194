#include "tests/ops/strict_exposition.h"

#include <cmath>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace idempotency {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string name;
  Labels labels;
  double value = 0;
};

bool IsName(absl::string_view text) {
  static const std::regex* const name = new std::regex("[a-zA-Z_:][a-zA-Z0-9_:]*");
  return std::regex_match(text.begin(), text.end(), *name);
}

bool IsLabelName(absl::string_view text) {
  static const std::regex* const name = new std::regex("[a-zA-Z_][a-zA-Z0-9_]*");
  return std::regex_match(text.begin(), text.end(), *name) && !absl::StartsWith(text, "__");
}

std::optional<double> ParseValue(absl::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  double value = 0;
  const bool is_plain = text.find_first_not_of("0123456789+-.e") == absl::string_view::npos;
  if (!is_plain || !absl::SimpleAtod(text, &value)) return std::nullopt;
  return value;
}

// name{label="value",…} value
std::optional<Sample> ParseSample(absl::string_view line) {
  Sample sample;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == absl::string_view::npos) return std::nullopt;
  sample.name = std::string(line.substr(0, name_end));
  line.remove_prefix(name_end);
  if (absl::ConsumePrefix(&line, "{")) {
    while (!absl::ConsumePrefix(&line, "}")) {
      if (!sample.labels.empty() && !absl::ConsumePrefix(&line, ",")) return std::nullopt;
      const size_t equals = line.find("=\"");
      if (equals == absl::string_view::npos) return std::nullopt;
      std::string name(line.substr(0, equals));
      line.remove_prefix(equals + 2);
      // No value of ours needs an escape.
      const size_t end = line.find_first_of("\"\\");
      if (end == absl::string_view::npos || line[end] == '\\') return std::nullopt;
      sample.labels.emplace_back(std::move(name), std::string(line.substr(0, end)));
      line.remove_prefix(end + 1);
    }
  }
  if (!absl::ConsumePrefix(&line, " ")) return std::nullopt;
  const std::optional<double> value = ParseValue(line);
  if (!value.has_value()) return std::nullopt;
  sample.value = *value;
  return sample;
}

std::string Text(const std::string& name, const Labels& labels) {
  std::string text;
  for (const auto& [label, value] : labels) {
    absl::StrAppend(&text, text.empty() ? "" : ",", label, "=\"", value, "\"");
  }
  return text.empty() ? name : absl::StrCat(name, "{", text, "}");
}

class Parser {
 public:
  ParsedExposition Parse(absl::string_view text) {
    if (!absl::EndsWith(text, "\n")) Mistake("the text does not end in a line's end", "");
    absl::ConsumeSuffix(&text, "\n");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) ParseLine(line);
    EndFamily();
    return std::move(parsed_);
  }

 private:
  void Mistake(absl::string_view what, absl::string_view where) {
    parsed_.mistakes.push_back(absl::StrCat(what, ": ", where));
  }

  void ParseLine(absl::string_view line) {
    if (absl::ConsumePrefix(&line, "# HELP ")) return StartFamily(line);
    if (absl::ConsumePrefix(&line, "# TYPE ")) return SetType(line);
    const std::optional<Sample> sample = ParseSample(line);
    if (!sample.has_value()) return Mistake("no sample, HELP or TYPE", line);
    AddSample(*sample);
  }

  void StartFamily(absl::string_view line) {
    EndFamily();
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    name_ = std::string(parts.first);
    series_.clear();
    if (!IsName(name_)) Mistake("a bad name", name_);
    if (parsed_.families.count(name_) > 0) Mistake("a family stands twice", name_);
    parsed_.families[name_] = {};
    parsed_.families[name_].help = std::string(parts.second);
    if (parts.second.empty()) Mistake("no help", name_);
  }

  void SetType(absl::string_view line) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (name_.empty() || parts.first != absl::string_view(name_) || !family().type.empty()) {
      return Mistake("TYPE does not follow its HELP", line);
    }
    family().type = std::string(parts.second);
    const bool is_total = absl::EndsWith(name_, "_total");
    if (family().type == "counter") {
      if (!is_total) Mistake("a counter that does not end in _total", name_);
    } else if (family().type == "gauge" || family().type == "histogram") {
      if (is_total) Mistake("_total, but no counter", name_);
    } else {
      Mistake("an unknown type", line);
    }
    static const std::regex* const odd_units = new std::regex(
        ".*_(ms|millis|milliseconds|micros|microseconds|minutes|hours|kb|kilobytes|mib|percent)(_.*"
        "|$)");
    if (std::regex_match(name_, *odd_units)) Mistake("no base unit", name_);
  }

  void AddSample(const Sample& sample) {
    if (name_.empty() || family().type.empty()) return Mistake("a sample without family", name_);
    const bool is_histogram = family().type == "histogram";
    const bool belongs = is_histogram
                             ? sample.name == name_ + "_bucket" || sample.name == name_ + "_sum" ||
                                   sample.name == name_ + "_count"
                             : sample.name == name_;
    const std::string text = Text(sample.name, sample.labels);
    if (!belongs) Mistake("a sample of another family", text);
    std::set<std::string> names;
    for (const auto& [label, value] : sample.labels) {
      if (!IsLabelName(label)) Mistake("a bad label", text);
      if (!names.insert(label).second) Mistake("a label stands twice", text);
      if (value.empty()) Mistake("an empty label", text);
    }
    if (!family().samples.emplace(text, sample.value).second) Mistake("a series twice", text);
    if (family().type != "gauge" && !(sample.value >= 0)) Mistake("below zero", text);
    if (is_histogram) AddToSeries(sample);
  }

  // The parts of one histogram: by its labels without `le`.
  struct Series {
    double bound = -std::numeric_limits<double>::infinity();
    double count = 0;
    std::optional<double> sum;
    std::optional<double> total;
  };

  void AddToSeries(const Sample& sample) {
    Labels labels = sample.labels;
    if (absl::EndsWith(sample.name, "_bucket")) {
      if (labels.empty() || labels.back().first != "le") {
        return Mistake("a bucket without bound", sample.name);
      }
      const std::optional<double> bound = ParseValue(labels.back().second);
      labels.pop_back();
      Series& series = series_[Text(name_, labels)];
      if (!bound.has_value() || !(*bound > series.bound)) {
        Mistake("a bucket out of order", Text(sample.name, sample.labels));
      }
      if (sample.value < series.count) {
        Mistake("a bucket that shrinks", Text(sample.name, sample.labels));
      }
      series.bound = bound.value_or(series.bound);
      series.count = sample.value;
    } else if (absl::EndsWith(sample.name, "_sum")) {
      series_[Text(name_, labels)].sum = sample.value;
    } else {
      series_[Text(name_, labels)].total = sample.value;
    }
  }

  void EndFamily() {
    if (name_.empty()) return;
    if (family().type.empty()) Mistake("no type", name_);
    if (family().samples.empty()) Mistake("no samples", name_);
    for (const auto& [labels, series] : series_) {
      if (!series.sum.has_value() || !series.total.has_value()) Mistake("no sum or count", labels);
      if (!std::isinf(series.bound)) Mistake("no bucket +Inf", labels);
      if (series.total != series.count) Mistake("+Inf is not the count", labels);
    }
  }

  ParsedFamily& family() { return parsed_.families[name_]; }

  ParsedExposition parsed_;
  std::string name_;
  std::map<std::string, Series> series_;
};

}  // namespace

double ParsedExposition::Value(const std::string& sample) const {
  for (const auto& [name, family] : families) {
    const auto found = family.samples.find(sample);
    if (found != family.samples.end()) return found->second;
  }
  return -1;
}

ParsedExposition ParseStrictly(absl::string_view text) { return Parser().Parse(text); }

}  // namespace idempotency
