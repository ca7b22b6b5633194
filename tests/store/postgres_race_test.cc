// What happens when something else of the database gets between a store's statements: rows that
// vanish, rows that others hold, and waits for locks.

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/record/fault.h"
#include "tests/store/postgres_subject.h"

namespace idempotency {
namespace {

constexpr absl::Duration kMicro = absl::Microseconds(1);
constexpr absl::Duration kLease = absl::Seconds(60);

AttemptHash Attempt(const std::string& name) { return HashAttemptId(name); }

BeginItem Request(const std::string& key, const std::string& attempt) {
  BeginItem item;
  item.key = {"m1", key};
  item.operation = "POST /orders";
  item.fingerprint.fill(7);
  item.attempt = Attempt(attempt);
  item.ttl = absl::Minutes(1);
  item.lease_duration = kLease;
  return item;
}

// Somebody else's session, with a transaction open.
class ForeignTransaction {
 public:
  explicit ForeignTransaction(const std::string& conninfo)
      : connection_(PQconnectdb(conninfo.c_str())) {
    Exec("BEGIN");
  }
  ~ForeignTransaction() { PQfinish(connection_); }

  void Exec(const std::string& sql) {
    PGresult* result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(connection_);
    PQclear(result);
  }

 private:
  PGconn* const connection_;
};

class PostgresRace : public ::testing::Test {
 protected:
  BeginResult Begin(const BeginItem& item) {
    const BeginItem* const items[] = {&item};
    auto results = store_->BeginBatch(items);
    if (!results[0].ok()) ADD_FAILURE() << results[0].status();
    return results[0].ok() ? *results[0] : BeginResult();
  }

  OwnerVerdict Complete(const std::string& key, const std::string& attempt) {
    OwnerItem item;
    item.key = {"m1", key};
    item.attempt = Attempt(attempt);
    item.answer = std::make_shared<const Answer>(Outcome{});
    const OwnerItem* const items[] = {&item};
    auto results = store_->OwnerBatch(items);
    EXPECT_TRUE(results[0].ok());
    return results[0].ok() ? results[0]->verdict : OwnerVerdict::kRecordNotFound;
  }

  std::string Value(const std::string& sql) {
    const absl::StatusOr<std::string> value = QueryValue(subject_.conninfo(), sql);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or("");
  }

  // Returns when a session of the service waits for a lock.
  void AwaitWaitForLock() {
    const absl::Time give_up = absl::Now() + absl::Seconds(30);
    while (Value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idempotencyd' "
                 "AND wait_event_type = 'Lock'") == "0") {
      ASSERT_LT(absl::Now(), give_up) << "nobody waits for a lock";
    }
  }

  BlockRange AllBlocks() { return {0, *store_->CountBlocks()}; }

  const Policy policy_ = {};
  PostgresSubject subject_{policy_};
  // Patient, so that the tests decide when a wait ends.
  std::unique_ptr<Store> store_ = subject_.ConnectWith({.statement_timeout = absl::Minutes(1),
                                                        .commit_timeout = absl::Minutes(1),
                                                        .lock_timeout = absl::Seconds(50)});
};

TEST_F(PostgresRace, ReadingIsTakenAfterTheLockOfTheRow) {
  Begin(Request("order-1", "first"));
  subject_.AdvanceClock(kLease + policy_.skew_margin + kMicro);
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec("SELECT 1 FROM idempotency_record FOR UPDATE");
  BeginResult taken_over;
  std::thread thread([&] { taken_over = Begin(Request("order-1", "second")); });
  AwaitWaitForLock();
  subject_.AdvanceClock(absl::Seconds(5));
  foreign.Exec("COMMIT");
  thread.join();
  ASSERT_EQ(taken_over.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(taken_over.reading.now, subject_.Now());
  EXPECT_EQ(taken_over.record->started_at, subject_.Now());
  EXPECT_EQ(taken_over.record->fencing_token, absl::ToUnixMicros(subject_.Now()));
}

// The machine's clock is decades behind the database's in one half of the test, and ahead of it in
// the other: a lease neither lasts nor ends for that.
TEST_F(PostgresRace, LeaseIsJudgedByTheDatabasesClockAlone) {
  for (const int years : {30, -60}) {
    subject_.AdvanceClock(absl::Hours(24) * 365 * years);
    ASSERT_TRUE(store_->ReadClock().ok());
    const std::string key = absl::StrCat("order", years);
    const BeginResult first = Begin(Request(key, "first"));
    EXPECT_EQ(first.record->created_at, subject_.Now());
    EXPECT_EQ(first.record->lease_expires_at, subject_.Now() + kLease);
    subject_.AdvanceClock(kLease + policy_.skew_margin);
    EXPECT_EQ(Begin(Request(key, "second")).verdict, BeginVerdict::kInProgress);
    EXPECT_TRUE(store_->SweepStep(AllBlocks(), absl::ZeroDuration())->empty());
    subject_.AdvanceClock(kMicro);
    EXPECT_EQ(Begin(Request(key, "second")).verdict, BeginVerdict::kStarted);
  }
}

// The rows after the one that was waited for must not get tokens from before the wait.
TEST_F(PostgresRace, BatchThatWaitedForOneKeyReadsTheClockAnewForTheNext) {
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec(
      "INSERT INTO idempotency_record (created_at, lease_expires_at, ttl_seconds, "
      "lease_ms, attempt_number, attempt_hash, flags, state, merchant_id, idempotency_key, "
      "fingerprint, operation) VALUES (now(), now(), 1, 1, 1, gen_random_uuid(), 0, 1, 'm1', "
      "'order-1', '', '')");
  const std::vector<BeginItem> items = {Request("order-1", "first"), Request("order-2", "first")};
  BatchResults<BeginResult> results;
  std::thread thread([&] { results = store_->BeginBatch(PointersTo(items)); });
  AwaitWaitForLock();
  subject_.AdvanceClock(absl::Seconds(5));
  foreign.Exec("ROLLBACK");
  thread.join();
  ASSERT_TRUE(results[0].ok() && results[1].ok());
  EXPECT_EQ(results[0]->verdict, BeginVerdict::kStarted);
  EXPECT_EQ(results[1]->record->fencing_token, absl::ToUnixMicros(subject_.Now()));
}

// The decision that was made on the row as read is made again on the row as locked.
TEST_F(PostgresRace, TakeoverIsDecidedAgainOnTheLockedRow) {
  Begin(Request("order-1", "first"));
  subject_.AdvanceClock(kLease + policy_.skew_margin + kMicro);
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec(
      "UPDATE idempotency_record SET lease_expires_at = lease_expires_at + interval '1 h'");
  BeginResult late;
  std::thread thread([&] { late = Begin(Request("order-1", "second")); });
  AwaitWaitForLock();
  foreign.Exec("COMMIT");
  thread.join();
  EXPECT_EQ(late.verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(late.record->attempt, Attempt("first"));
}

// A row that is gone under the lock is no reason to answer from what it said before.
TEST_F(PostgresRace, KeyThatWasPurgedBeforeItCouldBeTakenOverIsClaimedAgain) {
  Begin(Request("order-1", "first"));
  subject_.AdvanceClock(kLease + policy_.skew_margin + kMicro);
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec("DELETE FROM idempotency_record");
  BeginResult fresh;
  std::thread thread([&] { fresh = Begin(Request("order-1", "second")); });
  AwaitWaitForLock();
  foreign.Exec("COMMIT");
  thread.join();
  EXPECT_EQ(fresh.verdict, BeginVerdict::kStarted);
  EXPECT_EQ(fresh.record->attempt_number, 1);
  EXPECT_EQ(fresh.record->unknown_attempts, 0);
}

TEST_F(PostgresRace, CompleteOfARecordThatIsDeletedMeanwhileFindsNone) {
  Begin(Request("order-1", "first"));
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec("DELETE FROM idempotency_record");
  OwnerVerdict verdict = OwnerVerdict::kRecorded;
  std::thread thread([&] { verdict = Complete("order-1", "first"); });
  AwaitWaitForLock();
  foreign.Exec("COMMIT");
  thread.join();
  EXPECT_EQ(verdict, OwnerVerdict::kRecordNotFound);
}

TEST_F(PostgresRace, LateCompleteThatWaitedForATakeoverLosesToIt) {
  Begin(Request("order-1", "first"));
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec(
      "UPDATE idempotency_record SET attempt_number = 2, "
      "attempt_hash = gen_random_uuid()");
  OwnerVerdict verdict = OwnerVerdict::kRecorded;
  std::thread thread([&] { verdict = Complete("order-1", "first"); });
  AwaitWaitForLock();
  foreign.Exec("COMMIT");
  thread.join();
  EXPECT_EQ(verdict, OwnerVerdict::kLeaseLost);
}

TEST_F(PostgresRace, PurgeDoesNotDeleteAKeyThatIsBegunAnewMeanwhile) {
  Begin(Request("order-1", "first"));
  Complete("order-1", "first");
  subject_.AdvanceClock(absl::Hours(2));
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec(
      "UPDATE idempotency_record SET state = 1, finished_at = '-infinity', created_at = "
      "created_at + interval '2 h', lease_expires_at = lease_expires_at + interval '3 h'");
  EXPECT_EQ(*store_->PurgeStep(AllBlocks()), 0);
  foreign.Exec("COMMIT");
  EXPECT_EQ(*store_->PurgeStep(AllBlocks()), 0);
  EXPECT_EQ(Value("SELECT state FROM idempotency_record"), "1");
}

TEST_F(PostgresRace, SweepDoesNotMarkAnAttemptThatCompletesMeanwhile) {
  Begin(Request("order-1", "first"));
  subject_.AdvanceClock(absl::Hours(1));
  ForeignTransaction foreign(subject_.conninfo());
  foreign.Exec("UPDATE idempotency_record SET state = 2, finished_at = now()");
  EXPECT_TRUE(store_->SweepStep(AllBlocks(), absl::ZeroDuration())->empty());
  foreign.Exec("COMMIT");
  EXPECT_TRUE(store_->SweepStep(AllBlocks(), absl::ZeroDuration())->empty());
  EXPECT_EQ(Value("SELECT state FROM idempotency_record"), "2");
}

// While rows vanish under them, callers are told to work, or to wait for somebody who works; and
// nobody who has no claim is told to work.
TEST_F(PostgresRace, BeginNeverRunsWithoutAClaimWhileRowsVanish) {
  constexpr int kCallers = 3;
  constexpr int kCalls = 300;
  std::atomic<int> callers_left = kCallers;
  std::atomic<int> started = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      const std::unique_ptr<Store> store = subject_.Connect();
      for (int call = 0; call < kCalls; ++call) {
        const BeginItem item = Request("order-1", absl::StrCat(caller, "-", call));
        const BeginItem* const items[] = {&item};
        const auto result = std::move(store->BeginBatch(items)[0]);
        if (!result.ok()) {
          EXPECT_EQ(FaultOf(result.status()), Fault::kStoreUnavailable) << result.status();
          continue;
        }
        const bool is_mine = result->record->attempt == item.attempt;
        EXPECT_EQ(result->verdict == BeginVerdict::kStarted, is_mine);
        EXPECT_EQ(result->verdict == BeginVerdict::kInProgress, !is_mine);
        started += is_mine ? 1 : 0;
      }
      --callers_left;
    });
  }
  while (callers_left > 0) {
    EXPECT_TRUE(Exec(subject_.conninfo(), "DELETE FROM idempotency_record").ok());
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(started, 1);
}

TEST_F(PostgresRace, NoTransactionStaysOpenBetweenCalls) {
  Begin(Request("order-1", "first"));
  subject_.AdvanceClock(kLease + policy_.skew_margin + kMicro);
  Begin(Request("order-1", "second"));
  Complete("order-1", "first");
  EXPECT_EQ(Value("SELECT string_agg(DISTINCT state, ',') FROM pg_stat_activity "
                  "WHERE application_name = 'idempotencyd'"),
            "idle");
}

TEST_F(PostgresRace, KeyIsReadableByAnOperator) {
  Begin(Request("pay:order-1", "first"));
  EXPECT_EQ(Value("SELECT state FROM idempotency_record WHERE merchant_id = 'm1' "
                  "AND idempotency_key = 'pay:order-1'"),
            "1");
}

}  // namespace
}  // namespace idempotency
