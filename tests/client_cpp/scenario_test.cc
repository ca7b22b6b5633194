// The scenarios of client/scenarios, replayed with the C++ client against the scenario host whose
// address is in IDEMPOTENCY_SCENARIO_HOST. One test each; the files say which there are.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client/keys.h"
#include "tests/client_cpp/scenario/session.h"

namespace idempotency::client {
namespace {

// In the files' order.
std::vector<std::string> ScenarioNames() {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(IDEM_SCENARIOS_DIR)) {
    if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  std::vector<std::string> names;
  for (const auto& path : files) {
    std::ifstream file(path);
    const auto document = nlohmann::json::parse(file);
    for (const auto& scenario : document.at("scenarios")) {
      names.push_back(scenario.at("name").get<std::string>());
    }
  }
  return names;
}

template <typename Base>
class WithHost : public Base {
 protected:
  void SetUp() override {
    const char* const address = getenv("IDEMPOTENCY_SCENARIO_HOST");
    if (address == nullptr || *address == '\0') {
      GTEST_SKIP() << "IDEMPOTENCY_SCENARIO_HOST has no address; ./dev scenarios serve prints one";
    }
    host_.emplace(address);
  }

  std::optional<ScenarioHost> host_;
};

class ScenarioTest : public WithHost<testing::TestWithParam<std::string>> {};
class ScenarioHostTest : public WithHost<testing::Test> {};

TEST_P(ScenarioTest, Passes) { EXPECT_EQ(ScenarioSession(*host_, GetParam()).Play(), ""); }

INSTANTIATE_TEST_SUITE_P(All, ScenarioTest, testing::ValuesIn(ScenarioNames()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

TEST_F(ScenarioHostTest, ServesTheScenariosOfTheFiles) {
  std::vector<std::string> names;
  for (const auto& scenario : host_->Get("/scenarios")) {
    names.push_back(scenario.at("name").get<std::string>());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(ScenarioNames()));
}

TEST_F(ScenarioHostTest, ExampleMovesTheMoneyOnce) {
  const auto target = host_->Get("/service").at("target").get<std::string>();
  const std::string command =
      absl::StrCat(IDEM_CLIENT_EXAMPLE, " ", target, " ", RandomRequestId());
  FILE* const output = popen(command.c_str(), "r");
  ASSERT_NE(output, nullptr);
  std::string text;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, output) != nullptr) text += buffer;
  EXPECT_EQ(pclose(output), 0) << text;
  EXPECT_THAT(text, testing::HasSubstr("call 1: HTTP 502, "));
  EXPECT_THAT(text, testing::HasSubstr("OUTCOME_UNKNOWN"));
  EXPECT_THAT(text, testing::HasSubstr("call 2: HTTP 201, {\"transfer\":\"tr-1\"}\n"));
  EXPECT_THAT(text, testing::HasSubstr("call 3: HTTP 201, replayed, {\"transfer\":\"tr-1\"}\n"));
  EXPECT_THAT(text, testing::HasSubstr("money moved: 50\n"));
}

}  // namespace
}  // namespace idempotency::client
