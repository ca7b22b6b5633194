// Races of the store with itself, with the sweep, and with rows that come and go; further ones, on
// a clock that stands, are in postgres_race_test.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/base/mutex.h"
#include "server/record/fault.h"
#include "tests/store/postgres_fixture.h"

namespace idempotency {
namespace {

class ConcurrencyTest : public PostgresFixture {
 protected:
  PostgresStoreOptions PatientOptions() const {
    PostgresStoreOptions options = Options();
    options.statement_timeout = absl::Minutes(5);
    options.lock_timeout = absl::Minutes(5);
    return options;
  }

  static BatchResults<BeginResult> BeginOn(Store& store, const std::vector<BeginItem>& items) {
    return store.BeginBatch(PointersOf(items));
  }

  static constexpr BlockRange kAllBlocks{0, 1000};
};

TEST_F(ConcurrencyTest, TheEmptyBatchHasNoResults) {
  EXPECT_TRUE(store().BeginBatch({}).empty());
  EXPECT_TRUE(store().OwnerBatch({}).empty());
  EXPECT_TRUE(store().LookupBatch({}).empty());
  EXPECT_TRUE(store().KeepRefusedBatch({}).empty());
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 0);
}

TEST_F(ConcurrencyTest, SweepLeavesALeaseAloneThatIsRenewed) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  Sql("UPDATE idempotency_record SET lease_expires_at = now() - interval '1 h'");
  RawSession owner(conninfo());
  owner.Sql("BEGIN; UPDATE idempotency_record SET lease_expires_at = now() + interval '1 h'");
  EXPECT_TRUE(store().SweepStep(kAllBlocks, absl::ZeroDuration())->empty());
  owner.Sql("COMMIT");
  EXPECT_TRUE(store().SweepStep(kAllBlocks, absl::ZeroDuration())->empty());
}

TEST_F(ConcurrencyTest, KeepingARefusedAnswerHardlyWaitsForItsRow) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  ASSERT_TRUE(CompleteOne("order-1").ok());
  RawSession holder(conninfo());
  holder.Sql("BEGIN; SELECT 1 FROM idempotency_record FOR UPDATE");
  PostgresStoreOptions options = PatientOptions();
  options.statement_timeout = absl::Seconds(30);
  const OwnerItem refused = Completed("order-1", 1, 500);
  const OwnerItem* const items[] = {&refused};
  const auto kept = NewStore(options)->KeepRefusedBatch(items);
  EXPECT_EQ(FaultOf(kept[0].status()), Fault::kLockTimeout) << kept[0].status();
}

TEST_F(ConcurrencyTest, OwnerFindsNoRecordWhenTheRowVanishesBeforeItIsLocked) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  ASSERT_TRUE(Owner({Failed("order-1", Disposition::kUnknown)})[0].ok());
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  RawSession purger(conninfo());
  purger.Sql("BEGIN; DELETE FROM idempotency_record");
  // Another UNKNOWN has other content: the fast path leaves it to the decision under the lock.
  OwnerItem again = Failed("order-1", Disposition::kUnknown);
  Failure failure;
  failure.disposition = Disposition::kUnknown;
  failure.code = "timeout";
  again.answer = std::make_shared<const Answer>(failure);
  const OwnerItem* const items[] = {&again};
  BatchResults<OwnerResult> result;
  std::thread caller([&] { result = patient->OwnerBatch(items); });
  AwaitWaiting("Lock");
  purger.Sql("COMMIT");
  caller.join();

  ASSERT_TRUE(result[0].ok()) << result[0].status();
  EXPECT_EQ(result[0]->verdict, OwnerVerdict::kRecordNotFound);
  EXPECT_EQ(result[0]->record, nullptr);
  EXPECT_GT(result[0]->reading.now, absl::UnixEpoch());
}

// An insert that is skipped without a row to be found afterwards: as if the row had been purged
// between the two statements, as often as the test wants.
class VanishingRowTest : public ConcurrencyTest {
 protected:
  void Skip(int times) {
    Sql(absl::StrCat(
        "CREATE SEQUENCE skipped; CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN IF NEW.idempotency_key = 'vanishes' AND nextval('skipped') <= ",
        times,
        " THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER skip BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION "
        "skip()"));
  }
};

TEST_F(VanishingRowTest, IsClaimedAgainOnce) {
  Skip(1);
  const auto result = BeginOne("vanishes");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
}

TEST_F(VanishingRowTest, IsUnavailableWhenItVanishesTwice) {
  Skip(2);
  const auto results = Begin({Request("stays"), Request("vanishes")});
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(FaultOf(results[1].status()), Fault::kStoreUnavailable) << results[1].status();
}

// Four stores, few keys, every kind of call: what must never come is a deadlock, a fault, or two
// owners.
class RandomBatchesTest : public ConcurrencyTest {
 protected:
  static constexpr int kKeys = 40;
  static constexpr int kBatches = 150;

  std::set<RecordKey> RandomKeys(std::minstd_rand& random) {
    std::set<RecordKey> keys;
    for (int n = 1 + static_cast<int>(random() % 20); n > 0; --n) {
      keys.insert({absl::StrCat("m", random() % 2), NumberedKey(random() % kKeys)});
    }
    return keys;
  }

  void RunBatch(Store& store, std::minstd_rand& random) {
    const int attempt = static_cast<int>(random() % 1'000'000);
    std::vector<BeginItem> begins;
    std::vector<OwnerItem> owners;
    for (const RecordKey& key : RandomKeys(random)) {
      begins.push_back(Request(key.idempotency_key, attempt));
      begins.back().key = key;
      switch (random() % 3) {
        case 0:
          owners.push_back(Failed(key.idempotency_key, Disposition::kNotApplied, attempt));
          break;
        case 1:
          owners.push_back(Failed(key.idempotency_key, Disposition::kUnknown, attempt));
          break;
        default:
          owners.push_back(Renewed(key.idempotency_key, absl::Seconds(1), attempt));
      }
      owners.back().key = key;
    }
    for (const auto& result : BeginOn(store, begins)) {
      if (!result.ok()) {
        ADD_FAILURE() << result.status();
        continue;
      }
      if (result->verdict != BeginVerdict::kStarted || result->repeated) continue;
      const std::string owner = absl::StrCat(
          result->record->key.merchant_id, "/", result->record->key.idempotency_key, "/",
          absl::ToUnixMicros(result->record->created_at), "/", result->record->attempt_number);
      MutexLock lock(&mu_);
      EXPECT_TRUE(started_.insert(owner).second) << owner << " was started twice";
    }
    for (const auto& result : store.OwnerBatch(PointersOf(owners))) {
      EXPECT_TRUE(result.ok()) << result.status();
    }
    // Keeping evidence hardly waits for a row that another thread holds; it never fails otherwise.
    for (const auto& result : store.KeepRefusedBatch(PointersOf(Refused(owners)))) {
      EXPECT_TRUE(result.ok() || FaultOf(result.status()) == Fault::kLockTimeout)
          << result.status();
    }
  }

  static std::vector<OwnerItem> Refused(const std::vector<OwnerItem>& owners) {
    std::vector<OwnerItem> refused;
    for (const OwnerItem& item : owners) {
      if (!item.IsRenew()) refused.push_back(item);
    }
    return refused;
  }

  Mutex mu_;
  std::set<std::string> started_ ABSL_GUARDED_BY(mu_);
};

TEST_F(RandomBatchesTest, NeverDeadlock) {
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([this, seed] {
      const std::unique_ptr<Store> mine = NewStore(PatientOptions());
      std::minstd_rand random(seed);
      for (int i = 0; i < kBatches; ++i) RunBatch(*mine, random);
    });
  }
  std::atomic<bool> done = false;
  std::thread maintenance([&] {
    while (!done) {
      EXPECT_TRUE(store().SweepStep(kAllBlocks, absl::ZeroDuration()).ok());
      EXPECT_TRUE(store().PurgeStep(kAllBlocks).ok());
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  maintenance.join();
  EXPECT_EQ(Value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
            "0");
}

}  // namespace
}  // namespace idempotency
