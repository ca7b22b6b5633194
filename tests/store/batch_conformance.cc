// Batches: order, mixed verdicts, sizes, being run again, and two connections at once.

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

class BatchConformance : public StoreConformance {
 protected:
  static std::string KeyAt(size_t place) { return absl::StrFormat("order-%03d", place); }

  // Items of one attempt for the keys 0 .. count-1.
  static std::vector<BeginItem> Requests(size_t count, int attempt) {
    std::vector<BeginItem> items;
    for (size_t i = 0; i < count; ++i) items.push_back(Request(KeyAt(i), attempt));
    return items;
  }
};

TEST_P(BatchConformance, EmptyBatchHasAnEmptyAnswer) {
  EXPECT_TRUE(store().BeginBatch({}).empty());
  EXPECT_TRUE(store().OwnerBatch({}).empty());
  EXPECT_TRUE(store().LookupBatch({}).empty());
  EXPECT_TRUE(store().KeepRefusedBatch({}).empty());
}

TEST_P(BatchConformance, AnswersStandInTheItemsOrder) {
  for (const size_t size : {1, 2, 256}) {
    // Every second key exists already, and belongs to attempt 1.
    for (size_t i = 1; i < size; i += 2) Begin(KeyAt(i), 1);
    const std::vector<BeginItem> items = Requests(size, static_cast<int>(size) + 1);
    const auto results = store().BeginBatch(PointersTo(items));
    ASSERT_EQ(results.size(), size);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      EXPECT_EQ(results[i]->record->key, items[i].key);
      EXPECT_EQ(results[i]->verdict,
                i % 2 == 1 ? BeginVerdict::kInProgress : BeginVerdict::kStarted);
    }
    AdvanceClock(absl::Hours(24 * 100));
    PurgeUnsettled(absl::Hours(1));
  }
}

TEST_P(BatchConformance, BeginBatchMixesAllVerdicts) {
  for (const char* key : {"b-replay", "d-reused", "e-lost", "g-taken-over"}) Begin(key, 1);
  BeginItem slow = Request("c-in-progress", 1);
  slow.lease_duration = absl::Hours(1);
  Begin(slow);
  BeginItem held = Request("f-held", 1);
  held.hold = true;
  Begin(held);
  Complete("b-replay", 1);
  Fail("e-lost", 1, Disposition::kNotApplied);
  PassLease();
  std::vector<BeginItem> items;
  for (const char* key : {"a-new", "b-replay", "c-in-progress", "d-reused"}) {
    items.push_back(Request(key, 2));
  }
  items[3].operation = "POST /refunds";
  items.push_back(Request("e-lost", 1));
  items.push_back(Request("f-held", 2));
  items.push_back(Request("g-taken-over", 2));
  items.push_back(Request("h-new", 2));
  const auto results = store().BeginBatch(PointersTo(items));
  ASSERT_EQ(results.size(), items.size());
  const std::vector<BeginVerdict> expected = {
      BeginVerdict::kStarted,   BeginVerdict::kReplay,    BeginVerdict::kInProgress,
      BeginVerdict::kKeyReused, BeginVerdict::kLeaseLost, BeginVerdict::kNeedsResolution,
      BeginVerdict::kStarted,   BeginVerdict::kStarted};
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(Describe(results[i]->verdict), Describe(expected[i])) << items[i].key.idempotency_key;
    EXPECT_EQ(Describe(*results[i]->record), Stored(items[i].key.idempotency_key));
  }
}

TEST_P(BatchConformance, BeginBatchStartsTakesOverAndResumesTogether) {
  for (const char* key : {"b-taken-over", "c-resumed", "d-released"}) Begin(key, 1);
  BeginItem brief = Request("e-expired", 1);
  brief.ttl = absl::Minutes(1);
  Begin(brief);
  Complete("e-expired", 1);
  Fail("d-released", 1, Disposition::kNotApplied);
  AdvanceClock(kReplayWindow + kMargin + kMicro);
  std::vector<BeginItem> items;
  items.push_back(Request("a-new", 2));
  items.push_back(Request("b-taken-over", 2));
  items.push_back(Request("c-resumed", 1));
  items.push_back(Request("d-released", 2));
  items.push_back(Request("e-expired", 2));
  const auto results = store().BeginBatch(PointersTo(items));
  const std::vector<int> numbers = {1, 2, 1, 2, 1};
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(results[i]->verdict, BeginVerdict::kStarted);
    EXPECT_EQ(results[i]->repeated, i == 2);
    EXPECT_EQ(results[i]->record->attempt_number, numbers[i]);
    EXPECT_EQ(results[i]->record->lease_expires_at, Now() + kLease);
    EXPECT_EQ(Describe(*results[i]->record), Stored(items[i].key.idempotency_key));
  }
}

TEST_P(BatchConformance, OwnerBatchMixesAllVerdicts) {
  for (const char* key : {"a-complete", "b-fail", "c-renew", "d-again", "e-conflict", "f-lost",
                          "h-finished", "i-capped"}) {
    Begin(key, 1);
  }
  Complete("d-again", 1);
  Complete("e-conflict", 1);
  Complete("h-finished", 1);
  PassLease();
  Begin("i-capped", 2);
  AdvanceClock(kTakeoverWindow);
  std::vector<OwnerItem> items = {Answered(Key("a-complete"), 1, Paid()),
                                  Answered(Key("b-fail"), 1, Failed(Disposition::kUnknown)),
                                  {Key("c-renew"), Attempt(1), nullptr, kLease},
                                  Answered(Key("d-again"), 1, Paid()),
                                  Answered(Key("e-conflict"), 1, Paid(200)),
                                  Answered(Key("f-lost"), 2, Paid()),
                                  Answered(Key("g-none"), 1, Paid()),
                                  {Key("h-finished"), Attempt(1), nullptr, kLease},
                                  {Key("i-capped"), Attempt(2), nullptr, kLease}};
  const auto results = store().OwnerBatch(PointersTo(items));
  ASSERT_EQ(results.size(), items.size());
  const std::vector<OwnerVerdict> expected = {
      OwnerVerdict::kRecorded,        OwnerVerdict::kRecorded,
      OwnerVerdict::kRenewed,         OwnerVerdict::kAlreadyRecorded,
      OwnerVerdict::kOutcomeConflict, OwnerVerdict::kLeaseLost,
      OwnerVerdict::kRecordNotFound,  OwnerVerdict::kAlreadyFinished,
      OwnerVerdict::kNeedsResolution};
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(Describe(results[i]->verdict), Describe(expected[i])) << items[i].key.idempotency_key;
  }
  EXPECT_EQ(results[6]->record, nullptr);
}

TEST_P(BatchConformance, OutcomesAreNotSwappedInALargeBatch) {
  const std::vector<BeginItem> begins = Requests(256, 1);
  store().BeginBatch(PointersTo(begins));
  std::vector<OwnerItem> items;
  for (size_t i = 0; i < begins.size(); ++i) {
    Outcome outcome = Paid(static_cast<int32_t>(i));
    outcome.response_id = KeyAt(i);
    items.push_back(Answered(begins[i].key, 1, outcome));
  }
  const auto results = store().OwnerBatch(PointersTo(items));
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    EXPECT_EQ(results[i]->verdict, OwnerVerdict::kRecorded);
    EXPECT_EQ(results[i]->record->key, items[i].key);
  }
  std::vector<LookupItem> lookups;
  for (const BeginItem& item : begins) lookups.push_back({item.key});
  const auto records = store().LookupBatch(PointersTo(lookups));
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(records[i].ok());
    EXPECT_EQ(*records[i]->record->answer, *items[i].answer);
  }
}

TEST_P(BatchConformance, LookupBatchTellsWhatIsThereAndWhatIsNot) {
  Begin("order-001", 1);
  const std::vector<LookupItem> items = {
      {Key("order-000")}, {Key("order-001")}, {Key("order-002")}};
  const auto results = store().LookupBatch(PointersTo(items));
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0]->record, nullptr);
  EXPECT_EQ(results[1]->record->key, Key("order-001"));
  EXPECT_EQ(results[2]->record, nullptr);
}

TEST_P(BatchConformance, KeepRefusedBatchTellsWhichWereKept) {
  for (const char* key : {"a", "b"}) Begin(key, 1);
  Complete("a", 1);
  const std::vector<OwnerItem> items = {Answered(Key("a"), 1, Paid(500)),
                                        Answered(Key("b"), 2, Paid(500)),
                                        Answered(Key("c"), 1, Paid(500))};
  const auto results = store().KeepRefusedBatch(PointersTo(items));
  ASSERT_EQ(results.size(), 3u);
  EXPECT_TRUE(*results[0]);
  EXPECT_FALSE(*results[1]);
  EXPECT_FALSE(*results[2]);
}

// What a store does after it lost the answer to a commit: rows know their attempt.
TEST_P(BatchConformance, BatchThatIsRunAgainFindsItself) {
  Begin("order-001", 9);
  PassLease();
  const std::vector<BeginItem> items = Requests(3, 1);
  const auto first = store().BeginBatch(PointersTo(items));
  const auto again = subject().Connect()->BeginBatch(PointersTo(items));
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_TRUE(first[i].ok() && again[i].ok());
    EXPECT_FALSE(first[i]->repeated);
    EXPECT_EQ(again[i]->verdict, BeginVerdict::kStarted);
    EXPECT_TRUE(again[i]->repeated);
    EXPECT_EQ(Describe(*again[i]->record), Describe(*first[i]->record));
  }
}

TEST_P(BatchConformance, FinishThatIsRunAgainIsAlreadyRecorded) {
  store().BeginBatch(PointersTo(Requests(3, 1)));
  std::vector<OwnerItem> items;
  for (size_t i = 0; i < 3; ++i) items.push_back(Answered(Key(KeyAt(i)), 1, Paid()));
  store().OwnerBatch(PointersTo(items));
  for (const auto& result : subject().Connect()->OwnerBatch(PointersTo(items))) {
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->verdict, OwnerVerdict::kAlreadyRecorded);
  }
}

// Begins of every key from four connections at once: read, then write, would let two win.
TEST_P(BatchConformance, OneOfManyConnectionsWinsEachKey) {
  constexpr size_t kKeys = 64;
  constexpr int kRivals = 4;
  // Half of the keys are new, half are abandoned and to be taken over.
  for (size_t i = 0; i < kKeys; i += 2) Begin(KeyAt(i), 99);
  PassLease();
  std::vector<std::vector<BeginItem>> items;
  std::vector<std::unique_ptr<Store>> stores;
  for (int rival = 0; rival < kRivals; ++rival) {
    items.push_back(Requests(kKeys, rival));
    stores.push_back(subject().Connect());
  }
  std::vector<BatchResults<BeginResult>> results(kRivals);
  std::vector<std::thread> threads;
  for (size_t rival = 0; rival < kRivals; ++rival) {
    threads.emplace_back(
        [&, rival] { results[rival] = stores[rival]->BeginBatch(PointersTo(items[rival])); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kKeys; ++i) {
    int winners = 0;
    for (const auto& of_rival : results) {
      ASSERT_TRUE(of_rival[i].ok()) << of_rival[i].status();
      if (of_rival[i]->verdict == BeginVerdict::kStarted) {
        ++winners;
      } else {
        EXPECT_EQ(of_rival[i]->verdict, BeginVerdict::kInProgress);
      }
    }
    EXPECT_EQ(winners, 1) << KeyAt(i);
  }
}

TEST_P(BatchConformance, CompleteRacingFailHasOneWinnerAndKeepsIt) {
  constexpr size_t kKeys = 64;
  store().BeginBatch(PointersTo(Requests(kKeys, 1)));
  std::vector<OwnerItem> completes;
  std::vector<OwnerItem> fails;
  for (size_t i = 0; i < kKeys; ++i) {
    completes.push_back(Answered(Key(KeyAt(i)), 1, Paid()));
    fails.push_back(Answered(Key(KeyAt(i)), 1, Failed(Disposition::kFinal)));
  }
  const auto other = subject().Connect();
  BatchResults<OwnerResult> completed;
  BatchResults<OwnerResult> failed;
  std::thread thread([&] { failed = other->OwnerBatch(PointersTo(fails)); });
  completed = store().OwnerBatch(PointersTo(completes));
  thread.join();
  for (size_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(completed[i].ok() && failed[i].ok());
    const bool complete_won = completed[i]->verdict == OwnerVerdict::kRecorded;
    const bool fail_won = failed[i]->verdict == OwnerVerdict::kRecorded;
    EXPECT_NE(complete_won, fail_won);
    EXPECT_EQ((complete_won ? failed : completed)[i]->verdict, OwnerVerdict::kOutcomeConflict);
    EXPECT_EQ(Lookup(KeyAt(i))->state,
              complete_won ? RecordState::kCompleted : RecordState::kFailedFinal);
  }
}

// Run in a process of their own: a fork beside the threads of the other tests may hang.
class BatchConformanceDeathTest : public BatchConformance {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    BatchConformance::SetUp();
  }
};

TEST_P(BatchConformanceDeathTest, KeyTwiceInABatchIsABug) {
  const std::vector<BeginItem> items = {Request("order-1", 1), Request("order-1", 2)};
  EXPECT_DEATH(store().BeginBatch(PointersTo(items)), "CHECK failed");
}

TEST_P(BatchConformanceDeathTest, UnsortedBatchIsABug) {
  const std::vector<LookupItem> items = {{Key("b")}, {Key("a")}};
  EXPECT_DEATH(store().LookupBatch(PointersTo(items)), "CHECK failed");
}

INSTANTIATE_TEST_SUITE_P(All, BatchConformance, ::testing::ValuesIn(StoreImplementations()),
                         ImplementationName);
INSTANTIATE_TEST_SUITE_P(All, BatchConformanceDeathTest,
                         ::testing::ValuesIn(StoreImplementations()), ImplementationName);

}  // namespace
}  // namespace idempotency
