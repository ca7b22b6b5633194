// How long a record lives and what comes after it: expiry, purged keys, tokens over both.

#include <gtest/gtest.h>

#include "server/record/record_id.h"
#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

TEST_P(StoreConformance, ExpiredKeyIsBegunAnewFromTheMicrosecondAfterItsRetention) {
  const BeginResult first = Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  AdvanceClock(kMicro);
  BeginItem other = Request("order-1", 2);
  other.fingerprint.fill(9);
  other.operation = "POST /refunds";
  other.ttl = absl::Hours(1);
  other.labels = {{"order", "2"}};
  const BeginResult fresh = Begin(other);
  EXPECT_EQ(fresh.verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(fresh.repeated);
  EXPECT_EQ(fresh.record->attempt_number, 1);
  EXPECT_EQ(fresh.record->operation, other.operation);
  EXPECT_EQ(fresh.record->fingerprint, other.fingerprint);
  EXPECT_EQ(fresh.record->ttl, other.ttl);
  EXPECT_EQ(fresh.record->labels, other.labels);
  EXPECT_EQ(fresh.record->answer, nullptr);
  EXPECT_FALSE(fresh.record->previous_attempt.has_value());
  EXPECT_GT(fresh.record->fencing_token, first.record->fencing_token);
  EXPECT_NE(RecordIdOf(fresh.record->key, fresh.record->created_at),
            RecordIdOf(first.record->key, first.record->created_at));
}

TEST_P(StoreConformance, AttemptOfAnExpiredRecordDoesNotRestartTheWork) {
  Begin("order-1", 1);
  PassLease();
  Begin("order-1", 2);
  Complete("order-1", 2);
  AdvanceClock(kTtl + kMargin + kMicro);
  EXPECT_EQ(Begin("order-1", 1).verdict, BeginVerdict::kLeaseLost);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kLeaseLost);
  EXPECT_EQ(Begin("order-1", 3).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, ReplayWindowKeepsARecordPastItsTtl) {
  BeginItem item = Request("order-1", 1);
  item.ttl = absl::Minutes(1);
  Begin(item);
  Complete("order-1", 1);
  AdvanceClock(kReplayWindow + kMargin);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kReplay);
  AdvanceClock(kMicro);
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kStarted);
}

TEST_P(StoreConformance, UnsettledRecordNeverExpires) {
  for (const char* key : {"abandoned", "unknown", "released-after-unknown"}) Begin(key, 1);
  Fail("unknown", 1, Disposition::kUnknown);
  PassLease();
  Begin("released-after-unknown", 2);
  Fail("released-after-unknown", 2, Disposition::kNotApplied);
  AdvanceClock(absl::Hours(24 * 60));
  for (const char* key : {"abandoned", "unknown", "released-after-unknown"}) {
    EXPECT_EQ(Begin(key, 3).verdict, BeginVerdict::kNeedsResolution) << key;
  }
}

// The record follows the work, not the connection that began it.
TEST_P(StoreConformance, RecordOutlivesTheConnectionThatBeganIt) {
  {
    const auto gone = subject().Connect();
    const BeginItem item = Request("order-1", 1);
    const BeginItem* const items[] = {&item};
    ASSERT_TRUE(gone->BeginBatch(items)[0].ok());
  }
  EXPECT_EQ(Begin("order-1", 2).verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(Complete("order-1", 1).verdict, OwnerVerdict::kRecorded);
}

TEST_P(StoreConformance, TokenGrowsOverAPurge) {
  const BeginResult first = Begin("order-1", 1);
  Complete("order-1", 1);
  AdvanceClock(kTtl + kMargin + kMicro);
  ASSERT_EQ(Purge(), 1);
  EXPECT_GT(Begin("order-1", 2).record->fencing_token, first.record->fencing_token);
}

TEST_P(StoreConformance, TokenGrowsWhenTheClockGoesBack) {
  const BeginResult first = Begin("order-1", 1);
  Fail("order-1", 1, Disposition::kNotApplied);
  AdvanceClock(-absl::Seconds(30));
  EXPECT_EQ(Begin("order-1", 2).record->fencing_token, first.record->fencing_token + 1);
}

}  // namespace
}  // namespace idempotency
