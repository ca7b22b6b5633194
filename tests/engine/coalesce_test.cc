#include "server/engine/coalesce.h"

#include <memory>

#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

const Policy kPolicy;
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

// A record that attempt 1 holds, as the store would have told it.
Record InProgress() {
  Record record = *DecideBegin(nullptr, BeginOf("order-1", 1), {.now = kNow}, kPolicy).next;
  return record;
}
BeginResult FirstTold(BeginVerdict verdict, Record record, absl::Time now = kNow) {
  return {.verdict = verdict,
          .record = std::make_shared<const Record>(std::move(record)),
          .reading = {.now = now}};
}

TEST(Coalesce, OtherAttemptIsToldInProgress) {
  const BeginResult first = FirstTold(BeginVerdict::kStarted, InProgress());
  const auto answer = Coalesce(BeginOf("order-1", 2), first, kPolicy);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(answer->reading.now, kNow);
}

TEST(Coalesce, SameAttemptTwiceIsTheSameAttempt) {
  const BeginResult first = FirstTold(BeginVerdict::kStarted, InProgress());
  const auto answer = Coalesce(BeginOf("order-1", 1), first, kPolicy);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(answer->repeated);
  EXPECT_EQ(answer->record->fencing_token, first.record->fencing_token);
}

// Known fault 26.
TEST(Coalesce, OtherBodyIsKeyReused) {
  const BeginResult first = FirstTold(BeginVerdict::kStarted, InProgress());
  EXPECT_EQ(Coalesce(BeginOf("order-1", 2, /*body=*/2), first, kPolicy)->verdict,
            BeginVerdict::kKeyReused);
}

// Known fault 26.
TEST(Coalesce, OtherOperationIsKeyReused) {
  const BeginResult first = FirstTold(BeginVerdict::kStarted, InProgress());
  BeginItem item = BeginOf("order-1", 2);
  item.operation = "POST /refunds";
  EXPECT_EQ(Coalesce(item, first, kPolicy)->verdict, BeginVerdict::kKeyReused);
}

TEST(Coalesce, FinalRecordIsReplayed) {
  Record record = *DecideOwner(std::make_unique<Record>(InProgress()).get(),
                               CompleteOf("order-1", 1), {.now = kNow}, kPolicy)
                       .next;
  const BeginResult first = FirstTold(BeginVerdict::kReplay, std::move(record));
  EXPECT_EQ(Coalesce(BeginOf("order-1", 2), first, kPolicy)->verdict, BeginVerdict::kReplay);
}

// The first was refused for its body; the second, whose body is right, would take the key over.
TEST(Coalesce, WhatNeedsAWriteIsNotAnswered) {
  const absl::Time later = kNow + absl::Minutes(2);
  const BeginResult first = FirstTold(BeginVerdict::kKeyReused, InProgress(), later);
  EXPECT_FALSE(Coalesce(BeginOf("order-1", 2), first, kPolicy).has_value());
}

}  // namespace
}  // namespace idempotency
