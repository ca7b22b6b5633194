// The replay cache by itself: how long it answers, what it forgets, what it holds.
#include "server/engine/replay_cache.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/hash/hash.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

constexpr absl::Duration kNano = absl::Nanoseconds(1);
const absl::Time kReading = absl::FromUnixSeconds(1'800'000'000);

class ReplayCacheTest : public testing::Test {
 protected:
  // Tests that need other options change them before the first use.
  ReplayCache& cache() {
    if (cache_ == nullptr) {
      cache_ = std::make_unique<ReplayCache>(options_, policy_, &clock_, &metrics_);
      cache_->ObserveDatabase(kDatabase);
    }
    return *cache_;
  }
  size_t HashOf(const RecordKey& key) const { return one_shard_ ? 0 : absl::HashOf(key); }

  // A completed record of BeginOf(key)'s request, read at kReading.
  static BeginResult Replay(absl::string_view key, const std::string& body = "done") {
    const BeginItem item = BeginOf(key, 1);
    auto record = std::make_shared<Record>();
    record->key = item.key;
    record->operation = item.operation;
    record->fingerprint = item.fingerprint;
    record->created_at = kReading - absl::Minutes(1);
    record->ttl = item.ttl;
    record->attempt = item.attempt;
    record->state = RecordState::kCompleted;
    record->started_at = record->created_at;
    record->finished_at = kReading;
    Outcome outcome;
    outcome.body = body;
    record->answer = std::make_shared<const Answer>(std::move(outcome));
    BeginResult result;
    result.verdict = BeginVerdict::kReplay;
    result.record = std::move(record);
    result.reading.now = kReading;
    return result;
  }
  // The same with a change of its record.
  template <typename Change>
  static BeginResult Changed(const BeginResult& result, const Change& change) {
    Record record = *result.record;
    change(record);
    BeginResult changed = result;
    changed.record = std::make_shared<const Record>(std::move(record));
    return changed;
  }
  ReadTerms TermsNow() { return {clock_.BootTime(), kDatabase}; }
  void Insert(const BeginResult& result) { Insert(result, TermsNow()); }
  void Insert(const BeginResult& result, const ReadTerms& terms) {
    cache().Learn(result, HashOf(result.record->key), terms);
  }
  std::optional<BeginResult> Find(const BeginItem& item) {
    return cache().Find(item, HashOf(item.key));
  }
  std::optional<BeginResult> Find(absl::string_view key) { return Find(BeginOf(key, 2)); }
  bool Has(absl::string_view key) { return Find(key).has_value(); }
  int64_t Count(Metric metric) const { return metrics_.Value(metric); }

  static constexpr DatabaseIdentity kDatabase = {.system_identifier = 7, .timeline = 3};

  ReplayCacheOptions options_;
  Policy policy_;
  FakeClock clock_;
  Metrics metrics_;
  bool one_shard_ = false;
  std::unique_ptr<ReplayCache> cache_;
};

TEST_F(ReplayCacheTest, AnswersTheRecordsRequestWithWhatWasRead) {
  const BeginResult read = Replay("order-1");
  Insert(read);
  const auto found = Find("order-1");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->verdict, BeginVerdict::kReplay);
  EXPECT_FALSE(found->repeated);
  EXPECT_FALSE(found->wrote_attempt);
  EXPECT_EQ(found->record.get(), read.record.get());
  EXPECT_EQ(found->reading.now, kReading);
  EXPECT_EQ(Count(Metric::kCacheHits), 1);
  EXPECT_EQ(Count(Metric::kCacheMisses), 0);
  EXPECT_EQ(Count(Metric::kCacheInsertions), 1);
}

TEST_F(ReplayCacheTest, AnswersFinalFailures) {
  Insert(
      Changed(Replay("order-1"), [](Record& record) { record.state = RecordState::kFailedFinal; }));
  EXPECT_TRUE(Has("order-1"));
}

TEST_F(ReplayCacheTest, AnswersEveryAttempt) {
  Insert(Changed(Replay("order-1"), [](Record& record) {
    record.attempt = Attempt(3);
    record.earlier_attempts = {Attempt(1), Attempt(2)};
  }));
  for (int attempt = 1; attempt <= 4; ++attempt) {
    EXPECT_TRUE(Find(BeginOf("order-1", attempt)).has_value()) << attempt;
  }
}

TEST_F(ReplayCacheTest, AnswersWhateverElseTheBeginAsks) {
  Insert(Replay("order-1"));
  BeginItem item = BeginOf("order-1", 2);
  item.hold = true;
  item.ttl = absl::Minutes(1);
  item.lease_duration = absl::Seconds(1);
  item.fingerprint_scheme = 1;
  item.labels = {{"a", "b"}};
  EXPECT_TRUE(Find(item).has_value());
}

TEST_F(ReplayCacheTest, SaysNothingOfAnotherRequest) {
  one_shard_ = true;
  Insert(Replay("order-1"));
  EXPECT_FALSE(Find(BeginOf("order-1", 2, /*body=*/2)).has_value());
  BeginItem item = BeginOf("order-1", 2);
  item.operation = "POST /refunds";
  EXPECT_FALSE(Find(item).has_value());
  item = BeginOf("order-1", 2);
  item.key.merchant_id = "other";
  EXPECT_FALSE(Find(item).has_value());
  EXPECT_FALSE(Has("order-2"));
  EXPECT_EQ(Count(Metric::kCacheMisses), 4);
  EXPECT_TRUE(Has("order-1")) << "a wrong request drops nothing";
}

TEST_F(ReplayCacheTest, AnswersUntilMaxAge) {
  Insert(Replay("order-1"));
  clock_.Advance(options_.max_age - kNano);
  EXPECT_TRUE(Has("order-1"));
  clock_.Advance(kNano);
  EXPECT_FALSE(Has("order-1"));
  EXPECT_EQ(Count(Metric::kCacheExpired), 1);
  EXPECT_EQ(Count(Metric::kCacheEntries), 0);
  EXPECT_EQ(Count(Metric::kCacheBytes), 0);
}

TEST_F(ReplayCacheTest, HitsDoNotProlong) {
  Insert(Replay("order-1"));
  for (int i = 0; i < 59; ++i) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(Has("order-1"));
  }
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, AgeCountsFromWhenTheReadWasSent) {
  const ReadTerms terms = TermsNow();
  clock_.Advance(absl::Seconds(20));
  Insert(Replay("order-1"), terms);
  clock_.Advance(options_.max_age - absl::Seconds(20) - kNano);
  EXPECT_TRUE(Has("order-1"));
  clock_.Advance(kNano);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, ReadThatTookLongerThanMaxAgeIsNotKept) {
  const ReadTerms terms = TermsNow();
  clock_.Advance(options_.max_age);
  Insert(Replay("order-1"), terms);
  EXPECT_EQ(Count(Metric::kCacheInsertions), 0);
}

TEST_F(ReplayCacheTest, AnswersUntilTheRetentionIsOverLessTheMargin) {
  policy_.replay_window = absl::Seconds(30);
  const BeginResult read =
      Changed(Replay("order-1"), [](Record& record) { record.created_at -= absl::Hours(24); });
  ASSERT_EQ(ExpiresAt(*read.record, policy_), kReading + absl::Seconds(30));
  Insert(read);
  clock_.Advance(absl::Seconds(30) - policy_.skew_margin - kNano);
  EXPECT_TRUE(Has("order-1"));
  clock_.Advance(kNano);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, RetentionCountsFromTheReadingThatCameWithTheRecord) {
  policy_.replay_window = absl::Seconds(30);
  BeginResult read =
      Changed(Replay("order-1"), [](Record& record) { record.created_at -= absl::Hours(24); });
  read.reading.now = kReading + absl::Seconds(18);
  Insert(read);
  clock_.Advance(absl::Seconds(12) - policy_.skew_margin);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, RecordAtItsRetentionsEndIsNotKept) {
  policy_.replay_window = policy_.skew_margin;
  const BeginResult read =
      Changed(Replay("order-1"), [](Record& record) { record.created_at -= absl::Hours(24); });
  Insert(read);
  EXPECT_EQ(Count(Metric::kCacheInsertions), 0);
}

// Two margins: the record expires one after its end, and is answered for until one before it.
TEST_F(ReplayCacheTest, IsSilentLongBeforeTheRecordIsExpired) {
  policy_.replay_window = absl::Seconds(30);
  const BeginResult read =
      Changed(Replay("order-1"), [](Record& record) { record.created_at -= absl::Hours(24); });
  Insert(read);
  const absl::Duration start = clock_.BootTime();
  while (Has("order-1")) clock_.Advance(absl::Milliseconds(1));
  const absl::Time database_now = kReading + (clock_.BootTime() - start);
  EXPECT_FALSE(IsExpired(*read.record, {.now = database_now + 2 * policy_.skew_margin}, policy_));
  EXPECT_TRUE(IsExpired(
      *read.record, {.now = database_now + 2 * policy_.skew_margin + absl::Seconds(1)}, policy_));
}

TEST_F(ReplayCacheTest, WallClockThatIsSetChangesNothing) {
  Insert(Replay("order-1"));
  clock_.StepWallClock(absl::Hours(48));
  EXPECT_TRUE(Has("order-1"));
  clock_.StepWallClock(-absl::Hours(96));
  clock_.Advance(options_.max_age);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, LaterReadTakesThePlaceOfTheFormer) {
  Insert(Replay("order-1"));
  clock_.Advance(absl::Seconds(40));
  Insert(Replay("order-1"));
  clock_.Advance(absl::Seconds(40));
  EXPECT_TRUE(Has("order-1"));
  EXPECT_EQ(Count(Metric::kCacheEntries), 1);
}

TEST_F(ReplayCacheTest, EarlierRecordDoesNotTakeThePlaceOfALaterOne) {
  Insert(Replay("order-1", "new"));
  Insert(Changed(Replay("order-1", "old"),
                 [](Record& record) { record.created_at -= absl::Microseconds(1); }));
  EXPECT_EQ(std::get<Outcome>(*Find("order-1")->record->answer).body, "new");
}

TEST_F(ReplayCacheTest, KeyThatIsStartedIsForgotten) {
  Insert(Replay("order-1"));
  Insert(Replay("order-2"));
  BeginResult started = Replay("order-1");
  started.verdict = BeginVerdict::kStarted;
  cache().Learn(started, HashOf(Key("order-1")), TermsNow());
  EXPECT_FALSE(Has("order-1"));
  EXPECT_TRUE(Has("order-2"));
}

TEST_F(ReplayCacheTest, KeyThatMayHaveBeenStartedIsForgotten) {
  Insert(Replay("order-1"));
  cache().Forget(Key("order-1"), HashOf(Key("order-1")));
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, AnotherRecordOfTheKeyDropsTheFormer) {
  for (const BeginVerdict verdict : {BeginVerdict::kInProgress, BeginVerdict::kKeyReused,
                                     BeginVerdict::kLeaseLost, BeginVerdict::kNeedsResolution}) {
    Insert(Replay("order-1"));
    BeginResult other = Changed(Replay("order-1"),
                                [](Record& record) { record.created_at += absl::Microseconds(1); });
    other.verdict = verdict;
    cache().Learn(other, HashOf(Key("order-1")), TermsNow());
    EXPECT_FALSE(Has("order-1"));
  }
}

TEST_F(ReplayCacheTest, SameRecordStays) {
  Insert(Replay("order-1"));
  BeginResult same = Replay("order-1");
  same.verdict = BeginVerdict::kKeyReused;
  cache().Learn(same, HashOf(Key("order-1")), TermsNow());
  cache().Learn(Key("order-1"), OwnerResult{OwnerVerdict::kLeaseLost, same.record, same.reading},
                HashOf(Key("order-1")));
  cache().Learn(Key("order-1"), LookupResult{same.record, same.reading}, HashOf(Key("order-1")));
  EXPECT_TRUE(Has("order-1"));
}

TEST_F(ReplayCacheTest, OwnersAndLookupsThatSeeAnotherRecordOrNoneDropIt) {
  const size_t hash = HashOf(Key("order-1"));
  const auto other = Changed(Replay("order-1"), [](Record& record) {
                       record.created_at += absl::Microseconds(1);
                     }).record;
  const auto unfinished = Changed(Replay("order-1"), [](Record& record) {
                            record.state = RecordState::kInProgress;
                          }).record;
  for (const auto& record : {other, unfinished, std::shared_ptr<const Record>()}) {
    Insert(Replay("order-1"));
    cache().Learn(Key("order-1"), OwnerResult{OwnerVerdict::kLeaseLost, record, {.now = kReading}},
                  hash);
    EXPECT_FALSE(Has("order-1"));
    Insert(Replay("order-1"));
    cache().Learn(Key("order-1"), LookupResult{record, {.now = kReading}}, hash);
    EXPECT_FALSE(Has("order-1"));
  }
}

TEST_F(ReplayCacheTest, LaterTimelineEmptiesIt) {
  Insert(Replay("order-1"));
  Insert(Replay("order-2"));
  cache().ObserveDatabase({kDatabase.system_identifier, kDatabase.timeline + 1});
  EXPECT_FALSE(Has("order-1"));
  EXPECT_FALSE(Has("order-2"));
  EXPECT_EQ(Count(Metric::kCacheResets), 1);
  EXPECT_EQ(Count(Metric::kCacheEntries), 0);
}

TEST_F(ReplayCacheTest, AnotherClusterEmptiesItWhateverItsTimeline) {
  Insert(Replay("order-1"));
  cache().ObserveDatabase({kDatabase.system_identifier - 1, kDatabase.timeline - 1});
  EXPECT_FALSE(Has("order-1"));
  EXPECT_EQ(Count(Metric::kCacheResets), 1);
}

TEST_F(ReplayCacheTest, SameDatabaseEmptiesNothing) {
  Insert(Replay("order-1"));
  cache().ObserveDatabase(kDatabase);
  EXPECT_TRUE(Has("order-1"));
  EXPECT_EQ(Count(Metric::kCacheResets), 0);
}

TEST_F(ReplayCacheTest, EarlierTimelineNeverBecomesCurrent) {
  Insert(Replay("order-1"));
  const DatabaseIdentity former = {kDatabase.system_identifier, kDatabase.timeline - 1};
  cache().ObserveDatabase(former);
  EXPECT_TRUE(Has("order-1"));
  Insert(Replay("order-2"), {clock_.BootTime(), former});
  EXPECT_FALSE(Has("order-2"));
}

TEST_F(ReplayCacheTest, WhatWasReadOfAFormerHistoryIsRefused) {
  const ReadTerms terms = TermsNow();
  cache().ObserveDatabase({kDatabase.system_identifier, kDatabase.timeline + 1});
  Insert(Replay("order-1"), terms);
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheTest, WhatWasReadOfAnUnknownHistoryIsRefused) {
  Insert(Replay("order-1"), {clock_.BootTime(), std::nullopt});
  EXPECT_FALSE(Has("order-1"));
  ReplayCache fresh(options_, policy_, &clock_, &metrics_);
  fresh.Learn(Replay("order-1"), HashOf(Key("order-1")), TermsNow());
  EXPECT_FALSE(fresh.Find(BeginOf("order-1", 1), HashOf(Key("order-1"))).has_value())
      << "no database was observed";
}

class ReplayCacheBounds : public ReplayCacheTest {
 protected:
  ReplayCacheBounds() { one_shard_ = true; }
  void SetShare(size_t bytes) { options_.max_bytes = bytes * ReplayCache::kShards; }
};

TEST_F(ReplayCacheBounds, LeastRecentlyReplayedLeavesFirst) {
  const size_t one = ReplayCache::BytesOf(*Replay("order-1").record);
  SetShare(3 * one);
  for (const char* key : {"order-1", "order-2", "order-3"}) Insert(Replay(key));
  EXPECT_TRUE(Has("order-1"));
  Insert(Replay("order-4"));
  EXPECT_FALSE(Has("order-2"));
  EXPECT_TRUE(Has("order-1"));
  EXPECT_TRUE(Has("order-3"));
  EXPECT_TRUE(Has("order-4"));
  EXPECT_EQ(Count(Metric::kCacheEvictions), 1);
  EXPECT_EQ(Count(Metric::kCacheEntries), 3);
  EXPECT_EQ(Count(Metric::kCacheBytes), static_cast<int64_t>(3 * one));
}

TEST_F(ReplayCacheBounds, OneByteLessThanTwoRecordsHoldsOne) {
  const size_t one = ReplayCache::BytesOf(*Replay("order-1").record);
  SetShare(2 * one - 1);
  Insert(Replay("order-1"));
  Insert(Replay("order-2"));
  EXPECT_FALSE(Has("order-1"));
  EXPECT_TRUE(Has("order-2"));
}

TEST_F(ReplayCacheBounds, RecordLargerThanAShareIsNotKeptAndDropsNothing) {
  const size_t large = ReplayCache::BytesOf(*Replay("order-2", std::string(1000, 'b')).record);
  SetShare(large - 1);
  Insert(Replay("order-1"));
  Insert(Replay("order-2", std::string(1000, 'b')));
  EXPECT_FALSE(Has("order-2"));
  EXPECT_TRUE(Has("order-1"));
}

TEST_F(ReplayCacheBounds, RecordAsLargeAsAShareIsKept) {
  const BeginResult large = Replay("order-2", std::string(1000, 'b'));
  SetShare(ReplayCache::BytesOf(*large.record));
  Insert(Replay("order-1"));
  Insert(large);
  EXPECT_TRUE(Has("order-2"));
  EXPECT_FALSE(Has("order-1"));
}

TEST_F(ReplayCacheBounds, WithoutRoomNothingIsKept) {
  options_.max_bytes = 0;
  Insert(Replay("order-1"));
  EXPECT_FALSE(Has("order-1"));
  EXPECT_EQ(Count(Metric::kCacheInsertions), 0);
}

TEST_F(ReplayCacheBounds, AnswerCountsTwiceAndEveryPartOfItOnce) {
  const size_t small = ReplayCache::BytesOf(*Replay("order-1", "").record);
  const size_t large = ReplayCache::BytesOf(*Replay("order-1", std::string(5000, 'b')).record);
  EXPECT_EQ(large - small, 10'000u);
  EXPECT_GT(small, sizeof(Record) + 256);
  const BeginResult labelled = Changed(
      Replay("order-1", ""), [](Record& record) { record.labels["a"] = std::string(100, 'v'); });
  EXPECT_GT(ReplayCache::BytesOf(*labelled.record), small + 100);
}

TEST_F(ReplayCacheBounds, GaugesReturnToZero) {
  for (int i = 0; i < 10; ++i) Insert(Replay("order-" + std::to_string(i)));
  EXPECT_GT(Count(Metric::kCacheBytes), 0);
  cache_.reset();
  EXPECT_EQ(Count(Metric::kCacheEntries), 0);
  EXPECT_EQ(Count(Metric::kCacheBytes), 0);
}

struct Written : ReplayMemo::Content {
  explicit Written(std::string text_in) : text(std::move(text_in)) {}
  std::string text;
};

TEST_F(ReplayCacheTest, MemoIsSharedByTheReplaysOfARecord) {
  Insert(Replay("order-1"));
  const auto first = Find("order-1");
  ASSERT_NE(first->memo, nullptr);
  EXPECT_EQ(first->memo->Get(), nullptr);
  first->memo->Keep(std::make_unique<Written>("one"));
  const auto& kept = first->memo->Keep(std::make_unique<Written>("two"));
  EXPECT_EQ(static_cast<const Written&>(kept).text, "one");
  EXPECT_EQ(Find("order-1")->memo->Get(), &kept);
}

TEST_F(ReplayCacheTest, MemoOfAnotherReadIsAnother) {
  Insert(Replay("order-1"));
  Find("order-1")->memo->Keep(std::make_unique<Written>("one"));
  Insert(Replay("order-1"));
  EXPECT_EQ(Find("order-1")->memo->Get(), nullptr);
}

TEST_F(ReplayCacheTest, AnswerOutlivesItsPlaceInTheCache) {
  Insert(Replay("order-1"));
  const auto found = Find("order-1");
  found->memo->Keep(std::make_unique<Written>("one"));
  cache().Forget(Key("order-1"), HashOf(Key("order-1")));
  cache_.reset();
  EXPECT_EQ(static_cast<const Written*>(found->memo->Get())->text, "one");
  EXPECT_EQ(found->record->key, Key("order-1"));
}

// ThreadSanitizer runs this, too.
TEST_F(ReplayCacheTest, ThreadsAtOnceFindOnlyWhatIsTheKeys) {
  options_.max_bytes = 16 * 8 * kKiB;
  cache();
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      uint32_t random = seed;
      for (int i = 0; i < 5000; ++i) {
        random = random * 1664525 + 1013904223;
        const std::string key = "order-" + std::to_string((random >> 16) % 64);
        switch ((random >> 8) % 8) {
          case 0:
            Insert(Replay(key, key));
            break;
          case 1:
            cache().Forget(Key(key), HashOf(Key(key)));
            break;
          case 2:
            if (i % 64 == 0) cache().ObserveDatabase({kDatabase.system_identifier, 3 + random % 2});
            break;
          default:
            if (const auto found = Find(key)) {
              EXPECT_EQ(std::get<Outcome>(*found->record->answer).body, key);
              found->memo->Keep(std::make_unique<Written>(key));
              EXPECT_EQ(static_cast<const Written*>(found->memo->Get())->text, key);
            }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache_.reset();
  EXPECT_EQ(Count(Metric::kCacheEntries), 0);
  EXPECT_EQ(Count(Metric::kCacheBytes), 0);
}

}  // namespace
}  // namespace idempotency
