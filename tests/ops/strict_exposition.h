// Prometheus's text format, read strictly: what a scraper would take with a shrug is a mistake
// here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace idempotency {

// A family as it was written. Samples are by their name and labels as they stand in the text:
// `name{a="b",le="1"}`.
struct ParsedFamily {
  std::string help;
  std::string type;
  std::map<std::string, double> samples;
};

struct ParsedExposition {
  std::map<std::string, ParsedFamily> families;
  // Empty: the text is right.
  std::vector<std::string> mistakes;

  // The sample's value; -1 when there is none.
  double Value(const std::string& sample) const;
};

// Holds the text against the format and against Prometheus's conventions:
//  - HELP, then TYPE, then the samples of a family, all together and once; help that is not empty
//  - names and labels of the allowed characters, no series twice, values that are numbers
//  - counters end in _total and are not negative; gauges do not
//  - histograms have _bucket, _sum and _count for each label set, their buckets ascend in bound and
//    count and end in +Inf with the value of _count
//  - base units: no name speaks of milliseconds, kilobytes or percent
ParsedExposition ParseStrictly(absl::string_view text);

}  // namespace idempotency
