// docs/limits.md names settings and metrics that exist.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/options.h"
#include "server/base/metrics.h"

namespace idempotency {
namespace {

std::string Page() {
  std::ifstream file(IDEM_SOURCE_DIR "/docs/limits.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What stands in the page between backticks and looks like that.
std::set<std::string> Named(const std::string& pattern) {
  const std::string page = Page();
  const std::regex quoted("`(" + pattern + ")`");
  std::set<std::string> names;
  for (auto it = std::sregex_iterator(page.begin(), page.end(), quoted);
       it != std::sregex_iterator(); ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST(LimitsPage, NamesSettingsThatExist) {
  const auto help = ParseCommandLine({"serve", "--help"}, {});
  ASSERT_TRUE(std::holds_alternative<ExitText>(help));
  const std::set<std::string> names = Named("--[a-z-]+");
  EXPECT_GE(names.size(), 12u);
  for (const std::string& name : names) {
    EXPECT_THAT(std::get<ExitText>(help).text, testing::HasSubstr(name + " "));
  }
}

TEST(LimitsPage, NamesMetricsThatExist) {
  std::set<std::string> exported;
  const auto add = [&exported](const MetricText& text) {
    exported.emplace(text.exported.substr(0, text.exported.find('{')));
  };
  for (size_t i = 0; i < static_cast<size_t>(Metric::kCount); ++i) {
    add(Metrics::Text(static_cast<Metric>(i)));
  }
  for (size_t i = 0; i < static_cast<size_t>(LaneMetric::kCount); ++i) {
    add(Metrics::Text(static_cast<LaneMetric>(i)));
  }
  const std::set<std::string> names = Named("idempotency_[a-z_]+");
  EXPECT_GE(names.size(), 20u);
  for (const std::string& name : names) EXPECT_EQ(exported.count(name), 1u) << name;
}

}  // namespace
}  // namespace idempotency
