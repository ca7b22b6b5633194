// The simulation finds nothing wrong with the engine, and would.
#include "tests/simulation/simulation.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Simulation, SameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const SimulationResult first = Simulate({.seed = seed});
    const SimulationResult second = Simulate({.seed = seed, .is_traced = true});
    EXPECT_EQ(first.digest, second.digest) << seed;
    EXPECT_EQ(first.calls, second.calls) << seed;
  }
}

TEST(Simulation, OtherSeedIsAnotherRun) {
  EXPECT_NE(Simulate({.seed = 1}).digest, Simulate({.seed = 2}).digest);
}

// A cut of what ./dev simulate goes on with; the seeds are the same in every run.
TEST(Simulation, HoldsWhatTheServicePromises) {
  SimulationResult sum;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const SimulationOptions options = {.seed = seed};
    const SimulationResult result = Simulate(options);
    ASSERT_FALSE(result.violation.has_value()) << Explain(options, *result.violation);
    sum.starts += result.starts;
    sum.takeovers += result.takeovers;
    sum.replays += result.replays;
    sum.waits += result.waits;
    sum.unknown += result.unknown;
    sum.refused += result.refused;
  }
  // Or it would prove nothing.
  EXPECT_GT(sum.starts, 1000u);
  EXPECT_GT(sum.takeovers, 100u);
  EXPECT_GT(sum.replays, 1000u);
  EXPECT_GT(sum.waits, 100u);
  EXPECT_GT(sum.unknown, 100u);
  EXPECT_GT(sum.refused, 100u);
}

struct Broken {
  const char* name;
  Defect defect;
};
void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenDatabase : public testing::TestWithParam<Broken> {};

TEST_P(BrokenDatabase, IsFoundOutAndExplained) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const SimulationOptions options = {.seed = seed, .defect = GetParam().defect};
    const SimulationResult result = Simulate(options);
    if (!result.violation.has_value()) continue;
    const std::string text = Explain(options, *result.violation);
    EXPECT_NE(text.find("--seed " + std::to_string(seed)), std::string::npos) << text;
    return;
  }
  FAIL() << "no seed found it";
}

INSTANTIATE_TEST_SUITE_P(Defects, BrokenDatabase,
                         testing::Values(Broken{"ForgetsCommits", Defect::kForgetsCommits},
                                         Broken{"EndsLeasesEarly", Defect::kEndsLeasesEarly},
                                         Broken{"SwapsAnswers", Defect::kSwapsAnswers},
                                         Broken{"RepeatsTokens", Defect::kRepeatsTokens},
                                         Broken{"DeniesCommits", Defect::kDeniesCommits},
                                         Broken{"ChangesOutcomes", Defect::kChangesOutcomes}),
                         [](const auto& broken) { return std::string(broken.param.name); });

}  // namespace
}  // namespace idempotency
