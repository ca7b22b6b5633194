// What is PostgreSQL's own and not in the conformance suite: statements, sessions, locks, poison.
#include "server/store/postgres/postgres_store.h"

#include <gtest/gtest.h>

#include "server/record/fault.h"
#include "tests/store/postgres_fixture.h"

namespace idempotency {
namespace {

using PostgresStoreTest = PostgresFixture;

TEST_F(PostgresStoreTest, BeginStartsAnAttemptWhenTheKeyIsNew) {
  const auto result = BeginOne("order-1");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(result->repeated);
  EXPECT_EQ(result->record->attempt_number, 1);
}

TEST_F(PostgresStoreTest, BeginReplaysWhatCompleteRecorded) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  const auto recorded = CompleteOne("order-1");
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(recorded->verdict, OwnerVerdict::kRecorded);
  const auto replay = BeginOne("order-1", 2);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->verdict, BeginVerdict::kReplay);
  EXPECT_EQ(*replay->record->answer, *Completed("order-1").answer);
}

TEST_F(PostgresStoreTest, BeginStartsTheNextAttemptAfterNotApplied) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  OwnerItem failed = Completed("order-1");
  Failure failure;
  failure.disposition = Disposition::kNotApplied;
  failed.answer = std::make_shared<const Answer>(failure);
  ASSERT_TRUE(Owner({failed})[0].ok());
  const auto next = BeginOne("order-1", 2);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->verdict, BeginVerdict::kStarted);
  EXPECT_EQ(next->record->attempt_number, 2);
}

TEST_F(PostgresStoreTest, LookupFindsTheRecordOrNone) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  const std::vector<LookupItem> items = {LookupOf("order-1"), LookupOf("order-2")};
  const auto results = store().LookupBatch(PointersOf(items));
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  ASSERT_TRUE(results[1].ok()) << results[1].status();
  EXPECT_NE(results[0]->record, nullptr);
  EXPECT_EQ(results[1]->record, nullptr);
  EXPECT_GE(results[1]->now, results[0]->record->created_at);
}

TEST_F(PostgresStoreTest, CheckIsOkWhenTheSchemaFits) {
  EXPECT_TRUE(store().Check().ok()) << store().Check();
}

}  // namespace
}  // namespace idempotency
