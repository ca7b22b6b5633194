// What is PostgreSQL's own and not in the conformance suite: statements, sessions, locks, poison.
#include "server/store/postgres/postgres_store.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/record/fault.h"
#include "server/store/postgres/migrate.h"
#include "server/store/postgres/sql.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"

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
  EXPECT_GE(results[1]->reading.now, results[0]->record->created_at);
}

TEST_F(PostgresStoreTest, CheckIsOkWhenTheSchemaFits) {
  EXPECT_TRUE(store().Check().ok()) << store().Check();
}

TEST_F(PostgresStoreTest, IdentityIsTheDatabasesOnceThereIsAConnection) {
  EXPECT_EQ(store().Identity(), std::nullopt);
  ASSERT_TRUE(BeginOne("order-1").ok());
  const std::optional<DatabaseIdentity> identity = store().Identity();
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(absl::StrCat(identity->system_identifier),
            Value("SELECT system_identifier FROM pg_control_system()"));
  EXPECT_EQ(absl::StrCat(identity->timeline),
            Value("SELECT timeline_id FROM pg_control_checkpoint()"));
}

TEST_F(PostgresStoreTest, IdentityStaysWhenTheConnectionEnds) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  const std::optional<DatabaseIdentity> identity = store().Identity();
  Terminate(BackendPid());
  AllowConnections(false);
  ASSERT_FALSE(BeginOne("order-1").ok());
  EXPECT_EQ(store().Identity(), identity);
  AllowConnections(true);
}

TEST_F(PostgresStoreTest, ServesARoleThatHasNothingButTheTables) {
  Sql("CREATE ROLE idem_plain; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public "
      "TO "
      "idem_plain");
  {
    PostgresStoreOptions options = Options();
    absl::StrAppend(&options.conninfo, " options='-crole=idem_plain'");
    const std::unique_ptr<Store> plain = NewStore(options);
    EXPECT_TRUE(plain->Check().ok()) << plain->Check();
    const BeginItem item = Request("order-1");
    const BeginItem* const items[] = {&item};
    const auto begun = plain->BeginBatch(items);
    EXPECT_TRUE(begun[0].ok()) << begun[0].status();
    EXPECT_TRUE(plain->Identity().has_value());
  }
  Sql("DROP OWNED BY idem_plain; DROP ROLE idem_plain");
}

TEST_F(PostgresStoreTest, NamesBothVersionsWhenTheSchemaIsNewer) {
  ASSERT_TRUE(store().Check().ok());
  Sql("INSERT INTO idempotency_migration VALUES (4711, 'from_the_future', '\\x00')");
  const std::unique_ptr<Store> fresh = NewStore();
  for (Store* each : {&store(), fresh.get()}) {
    const absl::Status status = each->Check();
    EXPECT_EQ(FaultOf(status), Fault::kSchemaIncompatible) << status;
    EXPECT_NE(status.message().find("4711"), absl::string_view::npos) << status;
    EXPECT_NE(
        status.message().find(absl::StrCat("versions ", kOldestSchema, " to ", kNewestSchema)),
        absl::string_view::npos)
        << status;
  }
}

TEST_F(PostgresStoreTest, ServesANewerSchemaThatIsForServersThisOld) {
  Sql(
      absl::StrCat("INSERT INTO idempotency_migration (version, name, checksum, oldest_server) "
                   "VALUES (4711, 'from_the_future', '\\x00', ",
                   kNewestSchema, ")"));
  EXPECT_TRUE(store().Check().ok()) << store().Check();
  EXPECT_TRUE(BeginOne("order-1").ok());
  Sql(absl::StrCat("UPDATE idempotency_migration SET oldest_server = ", kNewestSchema + 1,
                   " WHERE version = 4711"));
  EXPECT_EQ(FaultOf(store().Check()), Fault::kSchemaIncompatible);
}

TEST_F(PostgresStoreTest, ServesADatabaseWhoseListOfMigrationsHasNoOldestServer) {
  Sql("ALTER TABLE idempotency_migration DROP COLUMN oldest_server");
  EXPECT_TRUE(store().Check().ok()) << store().Check();
}

TEST_F(PostgresStoreTest, CheckNamesItsVersionsWhenTheSchemaGoesAway) {
  ASSERT_TRUE(store().Check().ok());
  Sql("DROP TABLE idempotency_record, idempotency_migration");
  // On the connection that was there, on a new one, and while none is tried.
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = store().Check();
    EXPECT_EQ(FaultOf(status), Fault::kSchemaIncompatible) << status;
    EXPECT_EQ(status.message().find("the database "), 0u) << status;
    EXPECT_NE(status.message().find(absl::StrCat("versions ", kOldestSchema)),
              absl::string_view::npos)
        << status;
  }
}

TEST_F(PostgresStoreTest, NamesItsVersionsWhenThereIsNoSchema) {
  Sql("DROP TABLE idempotency_record, idempotency_migration");
  const absl::Status status = store().Check();
  EXPECT_EQ(FaultOf(status), Fault::kSchemaIncompatible) << status;
  EXPECT_NE(status.message().find(absl::StrCat("versions ", kOldestSchema, " to ", kNewestSchema)),
            absl::string_view::npos)
      << status;
  EXPECT_EQ(FaultOf(BeginOne("order-1").status()), Fault::kSchemaIncompatible);
}

TEST_F(PostgresStoreTest, AnOpenConnectionNoticesThatTheSchemaIsGone) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  Sql("DROP TABLE idempotency_record");
  EXPECT_EQ(FaultOf(BeginOne("order-2").status()), Fault::kSchemaIncompatible);
  EXPECT_EQ(FaultOf(CompleteOne("order-1").status()), Fault::kSchemaIncompatible);
}

TEST_F(PostgresStoreTest, IsUnavailableWhenTheDatabaseIsReadOnly) {
  Sql(absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo()),
                   " SET default_transaction_read_only = on"));
  const auto result = BeginOne("order-1");
  EXPECT_EQ(FaultOf(result.status()), Fault::kStoreUnavailable) << result.status();
  // Also where libpq was told to take any node.
  PostgresStoreOptions options = Options();
  options.conninfo += " target_session_attrs=any";
  const absl::Status checked = NewStore(options)->Check();
  EXPECT_EQ(FaultOf(checked), Fault::kStoreUnavailable) << checked;
  EXPECT_NE(checked.message().find("no writes"), absl::string_view::npos) << checked;
}

TEST_F(PostgresStoreTest, IsUnavailableWhenCommitsAreAnsweredBeforeTheyAreOnDisk) {
  Sql(absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo()), " SET synchronous_commit = off"));
  const auto result = BeginOne("order-1");
  EXPECT_EQ(FaultOf(result.status()), Fault::kStoreUnavailable) << result.status();
  // Twice: the second time it is told without connecting again.
  const std::unique_ptr<Store> fresh = NewStore();
  for (int i = 0; i < 2; ++i) {
    const absl::Status checked = fresh->Check();
    EXPECT_EQ(FaultOf(checked), Fault::kNotDurable) << checked;
    // For operators, as it is: nothing before it.
    EXPECT_EQ(checked.message().find("synchronous_commit is off"), 0u) << checked;
  }
}

// By a reload, which reaches every session.
TEST_F(PostgresStoreTest, ConnectedLanesWaitForTheDiskThoughTheConfigurationIsTurnedOff) {
  // A server of its own, whose setting an ALTER SYSTEM changes.
  TestPostgres postgres(std::vector<std::pair<std::string, std::string>>{{"fsync", "off"}});
  PostgresStoreOptions options = Options();
  options.conninfo = postgres.CreateDatabase();
  ASSERT_TRUE(Migrate(options.conninfo).ok());
  ASSERT_TRUE(Exec(options.conninfo,
                   "CREATE TABLE seen (setting text); CREATE FUNCTION look() RETURNS trigger "
                   "LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen SELECT "
                   "current_setting('synchronous_commit'); RETURN NEW; END $$; CREATE TRIGGER look "
                   "BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION look()")
                  .ok());
  const std::unique_ptr<Store> connected = NewStore(options);
  ASSERT_TRUE(connected->Check().ok()) << connected->Check();
  ASSERT_TRUE(Exec(options.conninfo, "ALTER SYSTEM SET synchronous_commit = off").ok());
  ASSERT_TRUE(Exec(options.conninfo, "SELECT pg_reload_conf()").ok());
  ASSERT_TRUE(Eventually(
      [&] { return *QueryValue(options.conninfo, "SHOW synchronous_commit") == "off"; }));

  const BeginItem item = Request("order-1");
  const BeginItem* const items[] = {&item};
  EXPECT_TRUE(connected->BeginBatch(items)[0].ok());
  EXPECT_EQ(*QueryValue(options.conninfo, "SELECT setting FROM seen"), "on");
  // The next connection would not serve.
  EXPECT_EQ(FaultOf(connected->Check()), Fault::kNotDurable);
  EXPECT_FALSE(NewStore(options)->BeginBatch(items)[0].ok());
}

TEST_F(PostgresStoreTest, ServesWhenCommitsWaitForTheOwnDiskOnly) {
  Sql(absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo()), " SET synchronous_commit = local"));
  EXPECT_TRUE(BeginOne("order-1").ok());
  EXPECT_TRUE(store().Check().ok());
}

// The first row comes whole, and the next while the bytes so far are not above the bound.
TEST_F(PostgresStoreTest, ReadsHoldLargeRowsBackForTheNextOne) {
  std::vector<BeginItem> begins;
  for (size_t i = 0; i < 4; ++i) begins.push_back(Request(NumberedKey(i)));
  for (const auto& result : Begin(begins)) ASSERT_TRUE(result.ok());
  Sql("UPDATE idempotency_record SET outcome = '12345', history = '67'");
  for (const Query query : {Query::kRead, Query::kLock}) {
    for (const auto& [bound, expected] : std::vector<std::pair<std::string, std::string>>{
             {"0", "tfff"}, {"6", "tfff"}, {"7", "ttff"}, {"13", "ttff"}, {"14", "tttf"}}) {
      const std::string rows = absl::StrReplaceAll(
          QueryText(query),
          {{"$1::text[]", "array_fill('m1'::text, ARRAY[4])"},
           {"$2::text[]", "ARRAY['key-0000', 'key-0001', 'key-0002', 'key-0003']"},
           {"$3::bigint", bound}});
      EXPECT_EQ(Value(absl::StrCat("SELECT string_agg(CASE WHEN outcome IS NULL AND history IS "
                                   "NULL THEN 'f' ELSE 't' END, '' ORDER BY ord) FROM (",
                                   rows, ") AS found")),
                expected)
          << QueryName(query) << " " << bound;
    }
  }
}

// More than one read can carry, in every operation that reads.
TEST_F(PostgresStoreTest, LargeOutcomesOfABatchAllComeBack) {
  std::vector<BeginItem> begins;
  std::vector<OwnerItem> completes;
  std::vector<LookupItem> lookups;
  for (size_t i = 0; i < 40; ++i) {
    begins.push_back(Request(NumberedKey(i)));
    completes.push_back(Completed(NumberedKey(i)));
    Outcome outcome;
    outcome.body = std::string(1 << 20, static_cast<char>('0' + i));
    completes.back().answer = std::make_shared<const Answer>(outcome);
    lookups.push_back(LookupOf(NumberedKey(i)));
  }
  for (const auto& result : Begin(begins)) ASSERT_TRUE(result.ok());
  for (const auto& result : Owner(completes)) ASSERT_TRUE(result.ok());
  const auto replays = Begin(begins);
  const auto again = Owner(completes);
  const auto found = store().LookupBatch(PointersOf(lookups));
  for (size_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(replays[i].ok()) << replays[i].status();
    EXPECT_EQ(replays[i]->verdict, BeginVerdict::kReplay);
    EXPECT_TRUE(*replays[i]->record->answer == *completes[i].answer);
    ASSERT_TRUE(again[i].ok()) << again[i].status();
    EXPECT_EQ(again[i]->verdict, OwnerVerdict::kAlreadyRecorded);
    ASSERT_TRUE(found[i].ok()) << found[i].status();
    EXPECT_TRUE(*found[i]->record->answer == *completes[i].answer);
    completes[i] = Completed(NumberedKey(i), 1, 500);
  }
  for (const auto& kept : store().KeepRefusedBatch(PointersOf(completes))) {
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_TRUE(*kept);
  }
}

// How many of a batch's items, all with rows of the same size, are answered; the others are
// kNotRead.
template <typename Result>
size_t CountAnswered(const BatchResults<Result>& results) {
  size_t answered = 0;
  for (const auto& result : results) {
    if (result.ok()) {
      ++answered;
    } else {
      EXPECT_EQ(FaultOf(result.status()), Fault::kNotRead) << result.status();
    }
  }
  return answered;
}

class AnswerBytesTest : public PostgresStoreTest {
 protected:
  // Four records, finished with outcomes that are stored in as many bytes each.
  void SetUp() override {
    for (size_t i = 0; i < 4; ++i) {
      begins_.push_back(Request(NumberedKey(i)));
      completes_.push_back(Completed(NumberedKey(i)));
      lookups_.push_back(LookupOf(NumberedKey(i)));
    }
    for (const auto& result : Begin(begins_)) ASSERT_TRUE(result.ok());
    for (const auto& result : Owner(completes_)) ASSERT_TRUE(result.ok());
    row_bytes_ = std::stoll(
        Value("SELECT max(octet_length(outcome) + octet_length(history)) FROM idempotency_record"));
    ASSERT_GT(row_bytes_, 0);
  }
  std::unique_ptr<Store> StoreWith(int64_t max_answer_bytes) {
    PostgresStoreOptions options = Options();
    options.max_answer_bytes = max_answer_bytes;
    return NewStore(options);
  }

  std::vector<BeginItem> begins_;
  std::vector<OwnerItem> completes_;
  std::vector<LookupItem> lookups_;
  int64_t row_bytes_ = 0;
};

TEST_F(AnswerBytesTest, ReplaysEndWithTheOneThatPassesTheBound) {
  for (const auto& [bound, expected] :
       std::vector<std::pair<int64_t, size_t>>{{1, 1},
                                               {row_bytes_ - 1, 1},
                                               {row_bytes_, 2},
                                               {3 * row_bytes_ - 1, 3},
                                               {3 * row_bytes_, 4}}) {
    const int64_t held_back = metrics().Value(Metric::kAnswersHeldBack);
    EXPECT_EQ(CountAnswered(StoreWith(bound)->BeginBatch(PointersOf(begins_))), expected) << bound;
    EXPECT_EQ(metrics().Value(Metric::kAnswersHeldBack) - held_back,
              static_cast<int64_t>(4 - expected));
  }
}

TEST_F(AnswerBytesTest, LookupsEndWithTheOneThatPassesTheBound) {
  EXPECT_EQ(CountAnswered(StoreWith(row_bytes_)->LookupBatch(PointersOf(lookups_))), 2u);
}

TEST_F(AnswerBytesTest, RepeatedCompletesEndWithTheOneThatPassesTheBound) {
  EXPECT_EQ(CountAnswered(StoreWith(row_bytes_)->OwnerBatch(PointersOf(completes_))), 2u);
}

TEST_F(AnswerBytesTest, NewKeysBehindLargeAnswersAreStarted) {
  begins_.push_back(Request("new"));
  const auto results = StoreWith(1)->BeginBatch(PointersOf(begins_));
  ASSERT_TRUE(results.back().ok()) << results.back().status();
  EXPECT_EQ(results.back()->verdict, BeginVerdict::kStarted);
  EXPECT_EQ(CountAnswered(results), 2u);
}

TEST_F(AnswerBytesTest, TryingAgainReadsTheRest) {
  const std::unique_ptr<Store> small = StoreWith(1);
  std::vector<const LookupItem*> left = PointersOf(lookups_);
  for (int i = 0; i < 4; ++i) {
    const auto results = small->LookupBatch(left);
    ASSERT_TRUE(results.front().ok()) << results.front().status();
    EXPECT_EQ(*results.front()->record->answer, *completes_[static_cast<size_t>(i)].answer);
    left.erase(left.begin());
  }
}

TEST_F(AnswerBytesTest, RowsThatAreReadAgainUnderTheirLockTakeNoRoomBefore) {
  std::vector<BeginItem> again;
  std::vector<OwnerItem> failures;
  for (size_t i = 0; i < 4; ++i) {
    begins_[i] = Request(absl::StrCat("released-", i));
    failures.push_back(Failed(absl::StrCat("released-", i), Disposition::kNotApplied));
    again.push_back(Request(absl::StrCat("released-", i), 2));
  }
  for (const auto& result : Begin(begins_)) ASSERT_TRUE(result.ok());
  for (const auto& result : Owner(failures)) ASSERT_TRUE(result.ok());
  const std::unique_ptr<Store> small = StoreWith(1);
  std::vector<const BeginItem*> left = PointersOf(again);
  for (int round = 0; round < 4; ++round) {
    const auto results = small->BeginBatch(left);
    ASSERT_TRUE(results.front().ok()) << results.front().status();
    EXPECT_EQ(results.front()->verdict, BeginVerdict::kStarted);
    EXPECT_EQ(results.front()->record->attempt_number, 2);
    left.erase(left.begin());
  }
}

TEST_F(PostgresStoreTest, GoesOnWhenItsPreparedStatementsAreGone) {
  // From inside the store's own session, as a pooler's DISCARD ALL would.
  Sql("CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "IF NEW.idempotency_key = 'forget' THEN EXECUTE 'DEALLOCATE ALL'; END IF; RETURN NEW; END "
      "$$; CREATE TRIGGER forget BEFORE INSERT ON idempotency_record FOR EACH ROW EXECUTE FUNCTION "
      "forget()");
  ASSERT_TRUE(BeginOne("forget").ok());
  const auto next = BeginOne("order-1");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(next->repeated);

  ASSERT_TRUE(BeginOne("forget", 2).ok());
  Sql("DELETE FROM idempotency_record WHERE idempotency_key = 'forget'");
  ASSERT_TRUE(BeginOne("forget").ok());
  EXPECT_TRUE(store().Check().ok());
}

TEST_F(PostgresStoreTest, RunsAgainAfterADeadlockOrASerializationFailure) {
  for (const char* sqlstate : {"40001", "40P01"}) {
    Sql(
        absl::StrCat("CREATE SEQUENCE once; CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE "
                     "plpgsql AS $$ BEGIN IF nextval('once') = 1 THEN RAISE EXCEPTION USING "
                     "ERRCODE = '",
                     sqlstate,
                     "'; END IF; RETURN NEW; END $$; CREATE TRIGGER fail_once BEFORE INSERT ON "
                     "idempotency_record FOR EACH ROW EXECUTE FUNCTION fail_once()"));
    const auto result = BeginOne(sqlstate);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
    Sql("DROP FUNCTION fail_once CASCADE; DROP SEQUENCE once");
  }
}

TEST_F(PostgresStoreTest, GivesUpWhenASerializationFailureComesEveryTime) {
  Sql("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "RAISE EXCEPTION USING ERRCODE = '40001'; END $$; CREATE TRIGGER fail BEFORE INSERT ON "
      "idempotency_record FOR EACH ROW EXECUTE FUNCTION fail()");
  EXPECT_EQ(FaultOf(BeginOne("order-1").status()), Fault::kStoreUnavailable);
}

TEST_F(PostgresStoreTest, IsUnavailableWhenTheDiskIsFull) {
  Sql("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "RAISE EXCEPTION USING ERRCODE = '53100'; END $$; CREATE TRIGGER fail BEFORE INSERT ON "
      "idempotency_record FOR EACH ROW EXECUTE FUNCTION fail()");
  const auto results = Begin({Request("order-1"), Request("order-2")});
  EXPECT_EQ(FaultOf(results[0].status()), Fault::kStoreUnavailable);
  EXPECT_EQ(FaultOf(results[1].status()), Fault::kStoreUnavailable);
}

TEST_F(PostgresStoreTest, KeepsTheStoredAnswerWhenOnlyEvidenceIsAdded) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  ASSERT_TRUE(CompleteOne("order-1").ok());
  const std::string outcome = Value("SELECT outcome FROM idempotency_record");
  const OwnerItem late = Completed("order-1", 1, 500);
  const OwnerItem* const items[] = {&late};
  const auto kept = store().KeepRefusedBatch(items);
  ASSERT_TRUE(kept[0].ok()) << kept[0].status();
  EXPECT_TRUE(*kept[0]);
  EXPECT_EQ(Value("SELECT outcome FROM idempotency_record"), outcome);
  const auto replay = BeginOne("order-1", 2);
  EXPECT_EQ(replay->record->refused_outcome->status_code, 500);
}

TEST_F(PostgresStoreTest, PinsItsPlans) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  Sql("CREATE TABLE seen (setting text)");
  Sql("CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "INSERT INTO seen SELECT current_setting('enable_seqscan') || "
      "current_setting('enable_indexscan') || current_setting('plan_cache_mode') || ' ' || "
      "current_setting('lock_timeout'); RETURN NEW; END $$; CREATE TRIGGER look BEFORE INSERT ON "
      "idempotency_record FOR EACH ROW EXECUTE FUNCTION look()");
  ASSERT_TRUE(BeginOne("order-2").ok());
  EXPECT_EQ(Value("SELECT setting FROM seen"), "offoffforce_generic_plan 250ms");
}

TEST_F(PostgresStoreTest, CountsTheBlocksOfTheTable) {
  EXPECT_EQ(*store().CountBlocks(), 0);
  ASSERT_TRUE(BeginOne("order-1").ok());
  EXPECT_EQ(*store().CountBlocks(), 1);
}

TEST_F(PostgresStoreTest, PurgeUnsettledDoesNothingWithoutAnAge) {
  EXPECT_TRUE(store().PurgeUnsettledStep({0, 10}, absl::InfiniteDuration())->empty());
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 0);
}

}  // namespace
}  // namespace idempotency
