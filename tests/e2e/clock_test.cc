// The database's clock is set while replicas run: as an operator, or a bad NTP server, would do it.
#include "absl/time/clock.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"
#include "tests/util/test_clock.h"

namespace idempotency {
namespace {

class ClockSteps : public testing::Test {
 protected:
  ClockSteps() { clock_.Run(absl::ZeroDuration()); }

  static v1::BeginRequest LeaseOf(const std::string& key, const std::string& attempt,
                                  int64_t seconds) {
    v1::BeginRequest request = BeginOf(key, attempt);
    request.mutable_lease_duration()->set_seconds(seconds);
    return request;
  }

  // The replicas have noted a jump of this kind.
  bool HasLogged(const std::string& reason) {
    return absl::StrContains(replicas_.Logs(), absl::StrCat("\"reason\":\"", reason));
  }

  MigratedDatabase database_;
  TestClock clock_{database_.conninfo(), absl::Now()};
  ReplicaProcesses replicas_{2, clock_.conninfo()};
};

TEST_F(ClockSteps, AheadEndsNoLeaseAndTheKeyIsDrivenOnALeaseLater) {
  const auto first = replicas_.client(0).Begin(LeaseOf("k", "owner", 3));
  ASSERT_TRUE(first.response.has_started()) << first.status.error_message();
  clock_.Run(absl::Hours(2));
  const absl::Time stepped_at = absl::Now();
  EXPECT_TRUE(replicas_.client(1).Begin(LeaseOf("k", "second", 3)).response.has_in_progress());
  EXPECT_TRUE(Eventually([&] { return HasLogged("ran_ahead_or_not_watched"); }));
  v1::Started taken_over;
  EXPECT_TRUE(Eventually([&] {
    const auto called = replicas_.client(1).Begin(LeaseOf("k", "second", 3));
    taken_over = called.response.started();
    return called.response.has_started();
  }));
  EXPECT_GE(absl::Now() - stepped_at, absl::Seconds(3));
  EXPECT_EQ(taken_over.attempt_number(), 2);
  EXPECT_GT(taken_over.fencing_token(), first.response.started().fencing_token());
}

TEST_F(ClockSteps, BackLowersNoToken) {
  const auto first = replicas_.client(0).Begin(LeaseOf("k-1", "owner", 60));
  ASSERT_TRUE(first.response.has_started()) << first.status.error_message();
  // So that what every replica has seen of the guard's row has passed the token.
  EXPECT_TRUE(Eventually([&] {
    const auto passed = QueryValue(
        database_.conninfo(), absl::StrCat("SELECT extract(epoch FROM reading) * 1000000 > ",
                                           first.response.started().fencing_token() + 1'000'000,
                                           " FROM idempotency_clock_guard"));
    return passed.value_or("") == "t";
  }));
  clock_.Run(-absl::Hours(2));
  const auto at_once = replicas_.client(0).Begin(LeaseOf("k-2", "owner", 60));
  ASSERT_TRUE(at_once.response.has_started()) << at_once.status.error_message();
  EXPECT_GT(at_once.response.started().fencing_token(), first.response.started().fencing_token());
  EXPECT_TRUE(Eventually([&] { return HasLogged("ran_back"); }));
  const auto later = replicas_.client(1).Begin(LeaseOf("k-3", "owner", 60));
  EXPECT_GT(later.response.started().fencing_token(), first.response.started().fencing_token());
  EXPECT_TRUE(replicas_.client(1).Begin(LeaseOf("k-1", "other", 60)).response.has_in_progress());
}

}  // namespace
}  // namespace idempotency
