#include "server/engine/admission.h"

#include "gtest/gtest.h"

namespace idempotency {
namespace {

TEST(Admission, SharedRoomEndsBeforeTheReservedQuarter) {
  Metrics metrics;
  Admission admission(8, 4, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(admission.EnterCall(Room::kShared));
  EXPECT_FALSE(admission.EnterCall(Room::kShared));
}

TEST(Admission, ReservedRoomEndsAtTheBound) {
  Metrics metrics;
  Admission admission(8, 4, &metrics);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(admission.EnterCall(Room::kShared));
  EXPECT_TRUE(admission.EnterCall(Room::kReserved));
  EXPECT_TRUE(admission.EnterCall(Room::kReserved));
  EXPECT_FALSE(admission.EnterCall(Room::kReserved));
}

TEST(Admission, LeavingMakesRoom) {
  Metrics metrics;
  Admission admission(1, 0, &metrics);
  EXPECT_TRUE(admission.EnterCall(Room::kShared));
  admission.LeaveCall();
  EXPECT_TRUE(admission.EnterCall(Room::kShared));
}

TEST(Admission, RefusedCallsAreCounted) {
  Metrics metrics;
  Admission admission(1, 0, &metrics);
  admission.EnterCall(Room::kShared);
  admission.EnterCall(Room::kShared);
  EXPECT_EQ(metrics.Value(Metric::kCallsRefused), 1);
}

TEST(Admission, GaugeShowsCallsInFlight) {
  Metrics metrics;
  Admission admission(8, 4, &metrics);
  admission.EnterCall(Room::kShared);
  EXPECT_EQ(metrics.Value(Metric::kCallsInFlight), 1);
  admission.LeaveCall();
  EXPECT_EQ(metrics.Value(Metric::kCallsInFlight), 0);
}

TEST(Admission, WaitsEndAtTheirBound) {
  Metrics metrics;
  Admission admission(100, 2, &metrics);
  EXPECT_TRUE(admission.EnterWait());
  EXPECT_TRUE(admission.EnterWait());
  EXPECT_FALSE(admission.EnterWait());
}

TEST(Admission, WaitsTakeAtMostHalfOfTheCalls) {
  Metrics metrics;
  Admission admission(4, 100, &metrics);
  EXPECT_TRUE(admission.EnterWait());
  EXPECT_TRUE(admission.EnterWait());
  EXPECT_FALSE(admission.EnterWait());
}

}  // namespace
}  // namespace idempotency
