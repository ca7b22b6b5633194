// A probe tells whether a record has changed, and nothing else.

#include <gtest/gtest.h>

#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

const char kKey[] = "order-1";

class ProbeConformance : public StoreConformance {
 protected:
  // The sign of the key's record, which is checked against what Lookup reads.
  std::optional<RecordSign> Probe(const RecordKey& key) {
    const LookupItem item = {key};
    const LookupItem* const items[] = {&item};
    const BatchResults<ProbeResult> results = store().ProbeBatch(items);
    if (results.size() != 1 || !results[0].ok()) {
      ADD_FAILURE() << "the probe failed";
      return std::nullopt;
    }
    EXPECT_EQ(results[0]->now, Now());
    ExpectSignOf(Lookup(key).get(), results[0]->sign);
    return results[0]->sign;
  }
  std::optional<RecordSign> Probe(absl::string_view key) { return Probe(Key(key)); }

  static void ExpectSignOf(const Record* record, const std::optional<RecordSign>& sign) {
    ASSERT_EQ(sign.has_value(), record != nullptr);
    if (record == nullptr) return;
    EXPECT_EQ(sign->created_at, record->created_at);
    EXPECT_EQ(Describe(sign->state), Describe(record->state));
    EXPECT_EQ(sign->attempt_number, record->attempt_number);
    EXPECT_EQ(sign->lease_expires_at, record->lease_expires_at);
  }
};

TEST_P(ProbeConformance, KeyWithoutRecordHasNoSign) { EXPECT_EQ(Probe(kKey), std::nullopt); }

TEST_P(ProbeConformance, UnchangedRecordKeepsItsSign) {
  Begin(kKey, 1);
  const auto before = Probe(kKey);
  AdvanceClock(absl::Seconds(10));
  Begin(kKey, 2);  // told in_progress
  EXPECT_EQ(Probe(kKey), before);
}

TEST_P(ProbeConformance, EveryStepOfARecordChangesItsSign) {
  std::vector<std::optional<RecordSign>> signs = {Probe(kKey)};
  const auto expect_new_sign = [&](const char* step) {
    SCOPED_TRACE(step);
    signs.push_back(Probe(kKey));
    for (size_t i = 0; i + 1 < signs.size(); ++i) EXPECT_NE(signs[i], signs.back());
  };
  Begin(kKey, 1);
  expect_new_sign("started");
  AdvanceClock(absl::Seconds(1));
  Renew(kKey, 1);
  expect_new_sign("renewed");
  Fail(kKey, 1, Disposition::kUnknown);
  expect_new_sign("failed unknown");
  Begin(kKey, 2);
  expect_new_sign("taken over");
  PassLease();
  Sweep(absl::ZeroDuration());
  expect_new_sign("swept");
  Begin(kKey, 2);
  expect_new_sign("resumed");
  Fail(kKey, 2, Disposition::kNotApplied);
  expect_new_sign("released");
  Begin(kKey, 3);
  expect_new_sign("started again");
  Complete(kKey, 3);
  expect_new_sign("completed");
  AdvanceClock(kTtl + kReplayWindow + kMargin + kMicro);
  Begin(kKey, 4);
  expect_new_sign("begun anew");
}

TEST_P(ProbeConformance, FinalFailureIsSeen) {
  Begin(kKey, 1);
  Fail(kKey, 1, Disposition::kFinal);
  EXPECT_EQ(Describe(Probe(kKey)->state), Describe(RecordState::kFailedFinal));
}

TEST_P(ProbeConformance, BatchAnswersEveryKeyInItsPlace) {
  Begin("b", 1);
  Begin("d", 1);
  Complete("d", 1);
  std::vector<LookupItem> items;
  for (const char* key : {"a", "b", "c", "d", "e"}) items.push_back({Key(key)});
  items.push_back({{"m2", "b"}});
  const BatchResults<ProbeResult> results = store().ProbeBatch(PointersTo(items));
  ASSERT_EQ(results.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    SCOPED_TRACE(items[i].key.idempotency_key);
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(results[i]->now, Now());
    ExpectSignOf(Lookup(items[i].key).get(), results[i]->sign);
  }
}

TEST_P(ProbeConformance, EmptyBatchHasNoResults) { EXPECT_TRUE(store().ProbeBatch({}).empty()); }

TEST_P(ProbeConformance, WritesNothing) {
  Begin(kKey, 1);
  const std::string before = Stored(kKey);
  PassLease();
  Probe(kKey);
  EXPECT_EQ(Stored(kKey), before);
}

TEST_P(ProbeConformance, OtherStoresCommitIsSeen) {
  Begin(kKey, 1);
  const std::unique_ptr<Store> other = subject().Connect();
  const OwnerItem complete = Answered(Key(kKey), 1, Paid());
  const OwnerItem* const items[] = {&complete};
  ASSERT_TRUE(other->OwnerBatch(items)[0].ok());
  EXPECT_EQ(Describe(Probe(kKey)->state), Describe(RecordState::kCompleted));
}

INSTANTIATE_TEST_SUITE_P(All, ProbeConformance, ::testing::ValuesIn(StoreImplementations()),
                         ImplementationName);

}  // namespace
}  // namespace idempotency
