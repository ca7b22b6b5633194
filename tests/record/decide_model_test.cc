// The product's state machine and the tests' reference model, written apart from each other, give
// the same answer in every situation of the tables.

#include <gtest/gtest.h>

#include "tests/record/decide_case.h"
#include "tests/util/describe.h"
#include "tests/util/model_state_machine.h"

namespace idempotency {
namespace {

using decide_case::Call;
using decide_case::Case;
using decide_case::kPolicy;
using decide_case::Now;
using decide_case::Request;

std::string Written(const std::optional<Record>& row) {
  return row.has_value() ? Describe(*row) : "untouched";
}

TEST(DecideModel, AgreesOnEveryBegin) {
  decide_case::ForEachCase([](const Case& c) {
    const std::optional<Record> record = decide_case::RecordOf(c);
    const Record* row = record.has_value() ? &*record : nullptr;
    for (const Request request : {Request::kSame, Request::kOtherFingerprint}) {
      if (testing::Test::HasFailure()) return;
      const BeginItem item = decide_case::BeginOf(c, request, false);
      const BeginDecision decision = DecideBegin(row, item, {.now = Now()}, kPolicy);
      const ModelBegin model = ModelDecideBegin(row, item, {.now = Now()}, kPolicy);
      EXPECT_EQ(Describe(decision.verdict), Describe(model.verdict)) << Describe(c);
      EXPECT_EQ(decision.repeated, model.repeated) << Describe(c);
      EXPECT_EQ(Written(decision.next), Written(model.row)) << Describe(c);
    }
  });
}

TEST(DecideModel, AgreesOnEveryOwnerCall) {
  decide_case::ForEachCase([](const Case& c) {
    const std::optional<Record> record = decide_case::RecordOf(c);
    const Record* row = record.has_value() ? &*record : nullptr;
    for (const Call call :
         {Call::kComplete, Call::kFailNotApplied, Call::kFailUnknown, Call::kRenew}) {
      if (testing::Test::HasFailure()) return;
      const OwnerItem item = decide_case::OwnerOf(c, call, false);
      const OwnerDecision decision = DecideOwner(row, item, {.now = Now()}, kPolicy);
      const ModelOwner model = ModelDecideOwner(row, item, {.now = Now()}, kPolicy);
      EXPECT_EQ(Describe(decision.verdict), Describe(model.verdict)) << Describe(c);
      EXPECT_EQ(Written(decision.next), Written(model.row)) << Describe(c);
    }
  });
}

}  // namespace
}  // namespace idempotency
