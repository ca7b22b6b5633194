#include "server/engine/admission.h"

#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Admission, SharedRoomEndsBeforeTheReservedQuarter) {
  Metrics metrics;
  Admission admission({.calls = 8, .waits = 4, .waits_of_merchant = 4}, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(admission.EnterCall(Room::kShared));
  EXPECT_FALSE(admission.EnterCall(Room::kShared));
}

TEST(Admission, ReservedRoomEndsAtTheBound) {
  Metrics metrics;
  Admission admission({.calls = 8, .waits = 4, .waits_of_merchant = 4}, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(admission.EnterCall(Room::kShared));
  EXPECT_TRUE(admission.EnterCall(Room::kReserved));
  EXPECT_TRUE(admission.EnterCall(Room::kReserved));
  EXPECT_FALSE(admission.EnterCall(Room::kReserved));
}

TEST(Admission, LeavingMakesRoom) {
  Metrics metrics;
  Admission admission({.calls = 1, .waits = 0, .waits_of_merchant = 0}, &metrics);
  EXPECT_TRUE(admission.EnterCall(Room::kShared));
  admission.LeaveCall();
  EXPECT_TRUE(admission.EnterCall(Room::kShared));
}

TEST(Admission, RefusedCallsAreCounted) {
  Metrics metrics;
  Admission admission({.calls = 1, .waits = 0, .waits_of_merchant = 0}, &metrics);
  admission.EnterCall(Room::kShared);
  admission.EnterCall(Room::kShared);
  EXPECT_EQ(metrics.Value(Metric::kCallsRefused), 1);
}

TEST(Admission, GaugeShowsCallsInFlight) {
  Metrics metrics;
  Admission admission({.calls = 8, .waits = 4, .waits_of_merchant = 4}, &metrics);
  admission.EnterCall(Room::kShared);
  EXPECT_EQ(metrics.Value(Metric::kCallsInFlight), 1);
  admission.LeaveCall();
  EXPECT_EQ(metrics.Value(Metric::kCallsInFlight), 0);
}

TEST(Admission, WaitsEndAtTheirBound) {
  Metrics metrics;
  Admission admission({.calls = 100, .waits = 2, .waits_of_merchant = 2}, &metrics);
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_FALSE(admission.EnterWait("acme"));
}

TEST(Admission, WaitsTakeAtMostHalfOfTheCalls) {
  Metrics metrics;
  Admission admission({.calls = 4, .waits = 100, .waits_of_merchant = 100}, &metrics);
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_FALSE(admission.EnterWait("acme"));
}

TEST(Admission, WaitsOfOneMerchantEndAtTheirBoundAndLeaveTheRestToOthers) {
  Metrics metrics;
  Admission admission({.calls = 100, .waits = 4, .waits_of_merchant = 2}, &metrics);
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_FALSE(admission.EnterWait("acme"));
  EXPECT_TRUE(admission.EnterWait("other"));
  EXPECT_EQ(metrics.Value(Metric::kWaiting), 3);
  admission.LeaveWait("acme");
  EXPECT_TRUE(admission.EnterWait("acme"));
  EXPECT_FALSE(admission.EnterWait("acme"));
}

TEST(Admission, NoWaitsOfAMerchantAreNone) {
  Metrics metrics;
  Admission admission({.calls = 100, .waits = 4, .waits_of_merchant = 0}, &metrics);
  EXPECT_FALSE(admission.EnterWait("acme"));
  EXPECT_EQ(metrics.Value(Metric::kWaiting), 0);
}

}  // namespace
}  // namespace idempotency
