// Items that the database refuses and rows that others hold: each fails alone.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/record/fault.h"
#include "tests/store/postgres_fixture.h"

namespace idempotency {
namespace {

constexpr size_t kMaxItems = 256;
// The mark that the traps below look for.
constexpr absl::Duration kPoisonLease = absl::Milliseconds(66666);

class PoisonTest : public PostgresFixture {
 protected:
  // Rows with the mark are refused with that SQLSTATE.
  void SetTrap(absl::string_view when, absl::string_view sqlstate) {
    Sql(absl::StrCat(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.lease_ms = 66666 THEN RAISE EXCEPTION 'secret-value' USING ERRCODE = '",
        sqlstate, "'; END IF; RETURN NEW; END $$;", "CREATE TRIGGER trap ", when,
        " ON idempotency_record FOR EACH ROW EXECUTE FUNCTION trap()"));
  }

  static std::vector<BeginItem> Requests(absl::string_view prefix, size_t size, size_t poison) {
    std::vector<BeginItem> items;
    for (size_t i = 0; i < size; ++i) {
      items.push_back(Request(absl::StrCat(prefix, NumberedKey(i))));
      if (i == poison) items.back().lease_duration = kPoisonLease;
    }
    return items;
  }

  template <typename Result>
  static void ExpectOnlyFault(const BatchResults<Result>& results, size_t place, Fault fault) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (i != place) {
        EXPECT_TRUE(results[i].ok()) << i << " " << results[i].status();
      } else if (results[i].ok()) {
        ADD_FAILURE() << "the culprit got an answer";
      } else {
        EXPECT_EQ(FaultOf(results[i].status()), fault) << results[i].status();
        EXPECT_EQ(results[i].status().message().find("secret-value"), absl::string_view::npos);
      }
    }
  }

  void ExpectBeginPoisonFailsAlone(size_t size, size_t place) {
    SCOPED_TRACE(absl::StrCat("place ", place, " of ", size));
    const std::string prefix = absl::StrCat("b", size, "p", place, "-");
    ExpectOnlyFault(Begin(Requests(prefix, size, place)), place, Fault::kInternal);
  }
};

TEST_F(PoisonTest, BeginFailsAloneAtEveryPlaceOfSmallBatches) {
  SetTrap("BEFORE INSERT", "23514");
  for (size_t size = 1; size <= 9; ++size) {
    for (size_t place = 0; place < size; ++place) ExpectBeginPoisonFailsAlone(size, place);
  }
}

TEST_F(PoisonTest, BeginFailsAloneAtEveryPlaceOfTheLargestBatch) {
  SetTrap("BEFORE INSERT", "22003");
  for (size_t place = 0; place < kMaxItems; ++place) ExpectBeginPoisonFailsAlone(kMaxItems, place);
}

TEST_F(PoisonTest, BeginFailsAloneInBatchesOfEverySize) {
  SetTrap("BEFORE INSERT", "P0001");
  for (size_t size = 2; size <= kMaxItems; ++size) {
    ExpectBeginPoisonFailsAlone(size, size / 3);
    ExpectBeginPoisonFailsAlone(size, size - 1);
  }
}

TEST_F(PoisonTest, BeginFailsAloneWhenTheCommitRefusesIt) {
  Sql("CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "IF NEW.lease_ms = 66666 THEN RAISE EXCEPTION USING ERRCODE = '23514'; END IF; RETURN NEW; "
      "END $$;"
      "CREATE CONSTRAINT TRIGGER trap AFTER INSERT ON idempotency_record DEFERRABLE INITIALLY "
      "DEFERRED FOR EACH ROW EXECUTE FUNCTION trap()");
  for (size_t place = 0; place < 5; ++place) ExpectBeginPoisonFailsAlone(5, place);
}

TEST_F(PoisonTest, BeginFailsAloneWhenItsKeyIsNoText) {
  for (size_t place = 0; place < 16; ++place) {
    SCOPED_TRACE(place);
    std::vector<BeginItem> items = Requests(absl::StrCat("u", place, "-"), 16, kMaxItems);
    items[place].key.idempotency_key += "\xff";
    ExpectOnlyFault(Begin(items), place, Fault::kInternal);
  }
}

TEST_F(PoisonTest, BeginFailsAloneWhenItWouldBeTheNextAttempt) {
  for (size_t place = 0; place < 16; ++place) {
    const std::string prefix = absl::StrCat("n", place, "-");
    std::vector<OwnerItem> released;
    for (const BeginItem& item : Requests(prefix, 16, kMaxItems)) {
      released.push_back(Failed(item.key.idempotency_key, Disposition::kNotApplied));
    }
    for (const auto& result : Begin(Requests(prefix, 16, kMaxItems))) ASSERT_TRUE(result.ok());
    for (const auto& result : Owner(released)) ASSERT_TRUE(result.ok());
  }
  SetTrap("BEFORE UPDATE", "23514");
  for (size_t place = 0; place < 16; ++place) {
    SCOPED_TRACE(place);
    std::vector<BeginItem> items = Requests(absl::StrCat("n", place, "-"), 16, place);
    for (BeginItem& item : items) item.attempt = Attempt(2);
    const auto results = Begin(items);
    ExpectOnlyFault(results, place, Fault::kInternal);
    EXPECT_EQ(results[(place + 1) % 16]->record->attempt_number, 2);
  }
}

TEST_F(PoisonTest, OwnerFailsAloneAtEveryPlace) {
  ASSERT_TRUE(Begin(Requests("", 64, kMaxItems))[0].ok());
  SetTrap("BEFORE UPDATE", "22001");
  for (size_t place = 0; place < 64; ++place) {
    SCOPED_TRACE(place);
    std::vector<OwnerItem> items;
    for (size_t i = 0; i < 64; ++i) {
      items.push_back(Renewed(NumberedKey(i), i == place ? kPoisonLease : absl::Seconds(60)));
    }
    ExpectOnlyFault(Owner(items), place, Fault::kInternal);
  }
}

TEST_F(PoisonTest, LookupFailsAloneWhenItsKeyIsNoText) {
  for (size_t place = 0; place < 8; ++place) {
    SCOPED_TRACE(place);
    std::vector<LookupItem> items;
    for (size_t i = 0; i < 8; ++i) items.push_back(LookupOf(NumberedKey(i)));
    items[place].key.idempotency_key += "\xff";
    ExpectOnlyFault(store().LookupBatch(PointersOf(items)), place, Fault::kInternal);
  }
}

TEST_F(PoisonTest, ARowThatCannotBeReadFailsAlone) {
  ASSERT_TRUE(Begin(Requests("", 3, kMaxItems))[0].ok());
  Sql(absl::StrCat("UPDATE idempotency_record SET history = '\\xff' WHERE idempotency_key = '",
                   NumberedKey(1), "'"));
  ExpectOnlyFault(Begin(Requests("", 3, kMaxItems)), 1, Fault::kInternal);
  const std::vector<LookupItem> items = {LookupOf(NumberedKey(0)), LookupOf(NumberedKey(1)),
                                         LookupOf(NumberedKey(2))};
  ExpectOnlyFault(store().LookupBatch(PointersOf(items)), 1, Fault::kInternal);
}

TEST_F(PoisonTest, ARowThatCannotBeReadFailsAloneUnderTheLock) {
  ASSERT_TRUE(Begin(Requests("", 3, kMaxItems))[0].ok());
  std::vector<OwnerItem> items;
  for (size_t i = 0; i < 3; ++i) items.push_back(Completed(NumberedKey(i)));
  Sql(absl::StrCat("UPDATE idempotency_record SET fingerprint = '\\x00' WHERE idempotency_key = '",
                   NumberedKey(2), "'"));
  ExpectOnlyFault(store().KeepRefusedBatch(PointersOf(items)), 2, Fault::kInternal);
}

using ForeignLockTest = PoisonTest;

TEST_F(ForeignLockTest, OwnerTimesOutAloneWhenAnotherHoldsTheRow) {
  ASSERT_TRUE(Begin(Requests("", 8, kMaxItems))[0].ok());
  std::vector<OwnerItem> items;
  for (size_t i = 0; i < 8; ++i) items.push_back(Completed(NumberedKey(i)));
  RawSession other(conninfo());
  other.Sql(absl::StrCat("BEGIN; SELECT FROM idempotency_record WHERE idempotency_key = '",
                         NumberedKey(3), "' FOR UPDATE"));
  ExpectOnlyFault(Owner(items), 3, Fault::kLockTimeout);
  EXPECT_GE(metrics().Value(Metric::kBatchBisected), 3);

  other.Sql("ROLLBACK");
  const auto later = Owner(items);
  EXPECT_EQ(later[3]->verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(later[4]->verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(ForeignLockTest, BeginTimesOutAloneWhenAnotherInsertsTheKey) {
  RawSession other(conninfo());
  other.Sql(
      "BEGIN; INSERT INTO idempotency_record (created_at, lease_expires_at, "
      "ttl_seconds, lease_ms, attempt_number, attempt_hash, flags, state, merchant_id, "
      "idempotency_key, fingerprint, operation) SELECT now(), now(), 60, 1000, 1, "
      "gen_random_uuid(), 0, 1, 'm1', 'key-0005', sha256(''), 'POST /orders'");
  ExpectOnlyFault(Begin(Requests("", 8, kMaxItems)), 5, Fault::kLockTimeout);
}

TEST_F(ForeignLockTest, BeginTimesOutAloneWhenAnotherHoldsAReleasedRow) {
  std::vector<OwnerItem> released;
  for (size_t i = 0; i < 8; ++i) {
    released.push_back(Failed(NumberedKey(i), Disposition::kNotApplied));
  }
  ASSERT_TRUE(Begin(Requests("", 8, kMaxItems))[0].ok());
  ASSERT_TRUE(Owner(released)[0].ok());
  RawSession other(conninfo());
  other.Sql("BEGIN; SELECT FROM idempotency_record WHERE idempotency_key = 'key-0000' FOR UPDATE");
  std::vector<BeginItem> items = Requests("", 8, kMaxItems);
  for (BeginItem& item : items) item.attempt = Attempt(2);
  ExpectOnlyFault(Begin(items), 0, Fault::kLockTimeout);
}

TEST_F(ForeignLockTest, TwoLockedRowsLeaveTheirMatesAlone) {
  ASSERT_TRUE(Begin(Requests("", 5, kMaxItems))[0].ok());
  RawSession other(conninfo());
  other.Sql(
      "BEGIN; SELECT FROM idempotency_record WHERE idempotency_key IN ('key-0000', 'key-0004') FOR "
      "UPDATE");
  std::vector<OwnerItem> items;
  for (size_t i = 0; i < 5; ++i) items.push_back(Completed(NumberedKey(i)));
  const auto results = Owner(items);
  EXPECT_EQ(FaultOf(results[0].status()), Fault::kLockTimeout);
  EXPECT_EQ(FaultOf(results[4].status()), Fault::kLockTimeout);
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(results[i].ok()) << results[i].status();
}

TEST_F(ForeignLockTest, ReadsDoNotWait) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  RawSession other(conninfo());
  other.Sql("BEGIN; SELECT FROM idempotency_record FOR UPDATE");
  const auto begin = BeginOne("order-1", 2);
  ASSERT_TRUE(begin.ok()) << begin.status();
  EXPECT_EQ(begin->verdict, BeginVerdict::kInProgress);
}

}  // namespace
}  // namespace idempotency
