// What a probe meets on a real PostgreSQL.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/record/fault.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

class ProbeTest : public PostgresFixture {
 protected:
  absl::StatusOr<ProbeResult> Probe(absl::string_view key) {
    return store().ProbeBatch(PointersOf(std::vector<LookupItem>{LookupOf(key)}))[0];
  }
};

TEST_F(ProbeTest, IsNotHeldUpByALockedRow) {
  ASSERT_TRUE(BeginOne("k").ok());
  RawSession other(conninfo());
  other.Sql("BEGIN; SELECT FROM idempotency_record FOR UPDATE");
  const auto probed = Probe("k");
  ASSERT_TRUE(probed.ok()) << probed.status();
  EXPECT_TRUE(probed->sign.has_value());
}

TEST_F(ProbeTest, SeesNothingOfAnOpenTransaction) {
  ASSERT_TRUE(BeginOne("k").ok());
  RawSession other(conninfo());
  other.Sql("BEGIN; DELETE FROM idempotency_record");
  EXPECT_TRUE(Probe("k")->sign.has_value());
  other.Sql("COMMIT");
  EXPECT_FALSE(Probe("k")->sign.has_value());
}

// A lane has other work: the next probe is soon.
TEST_F(ProbeTest, IsNotTriedAgainWhenTheDatabaseIsAway) {
  ASSERT_TRUE(BeginOne("k").ok());
  AllowConnections(false);
  Terminate(BackendPid());
  EXPECT_EQ(FaultOf(Probe("k").status()), Fault::kStoreUnavailable);
  AllowConnections(true);
  absl::StatusOr<ProbeResult> probed;
  // The store holds off for a moment before it connects again.
  EXPECT_TRUE(Eventually([&] { return (probed = Probe("k")).ok(); })) << probed.status();
  EXPECT_TRUE(probed->sign.has_value());
}

TEST_F(ProbeTest, FindsAnIdleConnectionThatWasClosedAndOpensAnother) {
  ASSERT_TRUE(BeginOne("k").ok());
  Terminate(BackendPid());
  const auto probed = Probe("k");
  ASSERT_TRUE(probed.ok()) << probed.status();
  EXPECT_TRUE(probed->sign.has_value());
}

}  // namespace
}  // namespace idempotency
