#include "server/ops/readiness.h"

#include "gtest/gtest.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

CheckedParts AllWell() { return {{true, ""}, {true, "version 1"}, {true, "local"}}; }

class ReadinessTest : public testing::Test {
 protected:
  FakeClock clock_;
  Readiness readiness_{&clock_};
};

TEST_F(ReadinessTest, IsNotReadyBeforeTheFirstCheck) {
  EXPECT_FALSE(readiness_.Report().IsReady());
  EXPECT_EQ(readiness_.Report().Summary(), "not ready: database, schema, durability\n");
}

TEST_F(ReadinessTest, IsReadyWhenEveryPartIs) {
  readiness_.SetChecked(AllWell());
  EXPECT_TRUE(readiness_.Report().IsReady());
  EXPECT_EQ(readiness_.Report().Summary(), "ok\n");
  EXPECT_EQ(readiness_.Report().Verbose(),
            "[+]database ok\n"
            "[+]schema ok: version 1\n"
            "[+]durability ok: local\n"
            "[+]draining ok: not draining\n"
            "ok\n");
}

TEST_F(ReadinessTest, EachPartAloneMakesItUnready) {
  ReadinessPart CheckedParts::*const kParts[] = {&CheckedParts::database, &CheckedParts::schema,
                                                 &CheckedParts::durability};
  const char* const kNames[] = {"database", "schema", "durability"};
  for (int i = 0; i < 3; ++i) {
    CheckedParts parts = AllWell();
    parts.*kParts[i] = {false, "broken"};
    readiness_.SetChecked(parts);
    EXPECT_FALSE(readiness_.Report().IsReady());
    EXPECT_EQ(readiness_.Report().Summary(), std::string("not ready: ") + kNames[i] + "\n");
    EXPECT_NE(
        readiness_.Report().Verbose().find(std::string("[-]") + kNames[i] + " failed: broken\n"),
        std::string::npos);
  }
}

TEST_F(ReadinessTest, DrainingIsForGood) {
  readiness_.SetChecked(AllWell());
  readiness_.SetDraining();
  readiness_.SetChecked(AllWell());
  EXPECT_FALSE(readiness_.Report().IsReady());
  EXPECT_EQ(readiness_.Report().Summary(), "not ready: draining\n");
}

TEST_F(ReadinessTest, CheckThatDoesNotEndMakesTheDatabaseCountAsAway) {
  readiness_.SetChecked(AllWell());
  clock_.Advance(Readiness::kStaleAfter - absl::Milliseconds(1));
  EXPECT_TRUE(readiness_.Report().IsReady());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(readiness_.Report().Summary(), "not ready: database\n");
  EXPECT_NE(readiness_.Report().Verbose().find("no check has ended for 5 s"), std::string::npos);
  readiness_.SetChecked(AllWell());
  EXPECT_TRUE(readiness_.Report().IsReady());
}

}  // namespace
}  // namespace idempotency
