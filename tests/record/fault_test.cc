#include "server/record/fault.h"

#include <gtest/gtest.h>

namespace idempotency {
namespace {

TEST(Fault, ComesBackFromTheStatusItWasMadeInto) {
  for (const Fault fault :
       {Fault::kStoreUnavailable, Fault::kSchemaIncompatible, Fault::kLockTimeout,
        Fault::kNotDurable, Fault::kOverloaded, Fault::kDraining, Fault::kCommitUnknown,
        Fault::kDeadlineExceeded, Fault::kCancelled, Fault::kInternal}) {
    const absl::Status status = MakeFault(fault, "begin_batch: 63 items");
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(FaultOf(status), fault);
    EXPECT_EQ(status.message(), "begin_batch: 63 items");
  }
}

TEST(Fault, SurvivesACopyOfTheStatus) {
  const absl::Status copy = absl::Status(MakeFault(Fault::kCommitUnknown, "x"));
  EXPECT_EQ(FaultOf(copy), Fault::kCommitUnknown);
}

TEST(Fault, IsInternalForAStatusOfOtherOrigin) {
  EXPECT_EQ(FaultOf(absl::UnavailableError("not ours")), Fault::kInternal);
  EXPECT_EQ(FaultOf(absl::UnknownError("")), Fault::kInternal);
}

}  // namespace
}  // namespace idempotency
