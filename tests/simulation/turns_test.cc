#include "tests/simulation/turns.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Turns, ActorsGoOnOnlyWhenTheyAreTold) {
  std::string seen;
  Turns turns;
  const size_t first = turns.Add([&] {
    seen += "a";
    Turns::Yield();
    seen += "b";
  });
  const size_t second = turns.Add([&] { seen += "c"; });
  EXPECT_EQ(seen, "");
  turns.Run(first);
  EXPECT_EQ(seen, "a");
  EXPECT_FALSE(turns.HasEnded(first));
  turns.Run(second);
  EXPECT_EQ(seen, "ac");
  EXPECT_TRUE(turns.HasEnded(second));
  turns.Run(first);
  EXPECT_EQ(seen, "acb");
  EXPECT_TRUE(turns.HasEnded(first));
}

TEST(Turns, YieldOutsideOfAnActorDoesNothing) { Turns::Yield(); }

}  // namespace
}  // namespace idempotency
