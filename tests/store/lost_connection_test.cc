// Connections that end, and commits whose answer is lost: what really happened is found out by
// running the batch again, or said to be unknown.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/record/fault.h"
#include "server/store/postgres/connection.h"
#include "tests/store/postgres_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

class LostConnectionTest : public PostgresFixture {
 protected:
  // No timer of the store fires in these tests unless they say so.
  PostgresStoreOptions PatientOptions() const {
    PostgresStoreOptions options = Options();
    options.statement_timeout = absl::Minutes(5);
    options.commit_timeout = absl::Minutes(5);
    options.lock_timeout = absl::Minutes(5);
    options.retry_budget = absl::Minutes(5);
    return options;
  }

  static absl::StatusOr<BeginResult> BeginOn(Store& store, absl::string_view key) {
    const BeginItem item = Request(key);
    const BeginItem* const items[] = {&item};
    return store.BeginBatch(items)[0];
  }

  // From now on an INSERT (or UPDATE) of a record waits while `holder` holds the advisory lock.
  void Block(absl::string_view write, RawSession& holder) {
    Sql(
        absl::StrCat("CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                     "PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END $$;"
                     "CREATE TRIGGER wait_here BEFORE ",
                     write, " ON idempotency_record FOR EACH ROW EXECUTE FUNCTION wait_here()"));
    holder.Sql("SELECT pg_advisory_lock(42)");
  }

  // Makes the call, of which one item takes the fast path and another is read, and cuts its
  // connection in the read: the fast path's INSERT (or UPDATE) is committed, and known to be.
  void CutInRead(absl::string_view write, const std::function<void(Store&)>& call) {
    RawSession holder(conninfo());
    Block(write, holder);
    const std::unique_ptr<Store> patient = NewStore(PatientOptions());
    std::thread caller([&] { call(*patient); });
    const std::string pid = AwaitWaiting("Lock");
    // Its turn comes after the write's commit, and before the read.
    RawSession locker(conninfo());
    locker.Send("BEGIN; LOCK TABLE idempotency_record IN ACCESS EXCLUSIVE MODE");
    EXPECT_TRUE(Eventually([&] {
      return Value(
                 "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation "
                 "= 'idempotency_record'::regclass AND NOT granted") == "1";
    }));
    holder.Sql("SELECT pg_advisory_unlock(42)");
    EXPECT_TRUE(Eventually([&] { return !locker.IsBusy(); }));
    EXPECT_EQ(AwaitWaiting("Lock"), pid);
    Terminate(pid);
    locker.Sql("ROLLBACK");
    caller.join();
  }
};

TEST_F(LostConnectionTest, BeginIsSentOnANewConnectionWhenTheIdleOneWasTerminated) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  Terminate(BackendPid());
  const auto result = BeginOne("order-2");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(result->repeated);
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 2);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 0);
}

TEST_F(LostConnectionTest, BeginStartsOnceWhenItsConnectionIsTerminatedBeforeTheCommit) {
  RawSession holder(conninfo());
  Block("INSERT", holder);
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*patient, "order-1"); });
  const std::string first = AwaitWaiting("Lock");
  Terminate(first);
  AwaitWaiting("Lock", first);
  holder.Sql("SELECT pg_advisory_unlock(42)");
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(result->repeated);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 1);
  EXPECT_EQ(Value("SELECT count(*) FROM idempotency_record"), "1");
}

TEST_F(LostConnectionTest, KnownStartStandsWhenTheConnectionEndsInTheReadAfterIt) {
  ASSERT_TRUE(BeginOne("order-2", 2).ok());
  const std::vector<BeginItem> items = {Request("order-1"), Request("order-2")};
  BatchResults<BeginResult> results;
  CutInRead("INSERT", [&](Store& patient) { results = patient.BeginBatch(PointersOf(items)); });
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(results[0]->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(results[0]->repeated);
  ASSERT_TRUE(results[1].ok()) << results[1].status();
  EXPECT_EQ(results[1]->verdict, BeginVerdict::kInProgress);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 0);
}

TEST_F(LostConnectionTest, KnownFailStandsWhenTheConnectionEndsInTheReadAfterIt) {
  ASSERT_TRUE(Begin({Request("order-1"), Request("order-2")})[1].ok());
  ASSERT_TRUE(CompleteOne("order-2").ok());
  const std::vector<OwnerItem> items = {Failed("order-1", Disposition::kNotApplied),
                                        Completed("order-2")};
  BatchResults<OwnerResult> results;
  CutInRead("UPDATE", [&](Store& patient) { results = patient.OwnerBatch(PointersOf(items)); });
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(results[0]->verdict, OwnerVerdict::kRecorded);
  ASSERT_TRUE(results[1].ok()) << results[1].status();
  EXPECT_EQ(results[1]->verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(LostConnectionTest, BeginRunsAgainWhenItsStatementIsCancelled) {
  RawSession holder(conninfo());
  Block("INSERT", holder);
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*patient, "order-1"); });
  const std::string pid = AwaitWaiting("Lock");
  holder.Sql(absl::StrCat("SELECT pg_cancel_backend(", pid, "), pg_advisory_unlock(42)"));
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 1);
}

TEST_F(LostConnectionTest, NothingWasDoneWhenNobodyCanConnect) {
  ASSERT_TRUE(BeginOne("order-1").ok());
  AllowConnections(false);
  Terminate(BackendPid());
  const auto begin = BeginOne("order-2");
  EXPECT_EQ(FaultOf(begin.status()), Fault::kStoreUnavailable) << begin.status();
  const auto owner = CompleteOne("order-1");
  EXPECT_EQ(FaultOf(owner.status()), Fault::kStoreUnavailable) << owner.status();
  EXPECT_EQ(FaultOf(store().Check()), Fault::kStoreUnavailable);
  EXPECT_EQ(FaultOf(store().CountBlocks().status()), Fault::kStoreUnavailable);

  AllowConnections(true);
  EXPECT_TRUE(Eventually([&] { return store().Check().ok(); }));
  EXPECT_EQ(BeginOne("order-2")->verdict, BeginVerdict::kStarted);
}

TEST_F(LostConnectionTest, CallsFailAtOnceWhileConnectingIsHeldOff) {
  PostgresStoreOptions options = Options();
  options.reconnect_first = absl::Hours(1);
  options.reconnect_longest = absl::Hours(1);
  const std::unique_ptr<Store> slow = NewStore(options);
  AllowConnections(false);
  EXPECT_FALSE(BeginOn(*slow, "order-1").ok());
  AllowConnections(true);
  const auto second = BeginOn(*slow, "order-1");
  EXPECT_EQ(FaultOf(second.status()), Fault::kStoreUnavailable);
  EXPECT_NE(second.status().message().find("not connecting yet"), absl::string_view::npos)
      << second.status();
}

TEST_F(LostConnectionTest, AWarningOfATriggerIsNoReasonForDoubt) {
  Sql("CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "RAISE WARNING 'hello'; RETURN NEW; END $$;"
      "CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON idempotency_record DEFERRABLE INITIALLY "
      "DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()");
  const auto result = BeginOne("order-1");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->repeated);
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 1);
}

TEST_F(LostConnectionTest, TheFirstHostMayBeDead) {
  PostgresStoreOptions options = Options();
  // A directory without a socket stands before the real host.
  const std::string host = "host=";
  const size_t at = options.conninfo.find(host);
  ASSERT_NE(at, std::string::npos);
  options.conninfo.insert(at + host.size(), "/nonexistent,");
  EXPECT_TRUE(BeginOn(*NewStore(options), "order-1").ok()) << options.conninfo;
}

// One search goes on to the next host, which the host before cannot delay beyond its timer.
TEST_F(LostConnectionTest, TheFirstHostMayBeSilent) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_TRUE(bind(listening, any, length) == 0 && listen(listening, 8) == 0 &&
              getsockname(listening, any, &length) == 0);
  PostgresStoreOptions options = Options();
  options.connect_timeout = absl::Seconds(1);
  const int port = SharedPostgres().server().port();
  // The test's own connection string has a connect_timeout, which would go before.
  options.conninfo = absl::StrReplaceAll(
      options.conninfo,
      {{"host=127.0.0.1", "host=127.0.0.1,127.0.0.1"},
       {absl::StrCat("port=", port), absl::StrCat("port=", ntohs(address.sin_port), ",", port)},
       {"connect_timeout=5", ""}});
  EXPECT_TRUE(BeginOn(*NewStore(options), "order-1").ok()) << options.conninfo;
  close(listening);
}

// Commits wait for a standby that does not exist, so a test can lose the answer to a commit that
// has happened.
class LostCommitTest : public LostConnectionTest {
 protected:
  void SetUp() override {
    RawSession admin(SharedPostgres().server().ConnectionString());
    admin.Sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    admin.Sql("SELECT pg_reload_conf()");
    // The setting holds once a commit has been seen to wait.
    RawSession probe(conninfo());
    probe.Sql("SET application_name = 'probe'");
    ASSERT_TRUE(Eventually([&] {
      if (!probe.IsBusy()) {
        probe.Sql("SELECT 1");
        probe.Send("SELECT pg_logical_emit_message(true, 'probe', '')");
      }
      return QueryValue(conninfo(),
                        "SELECT pid FROM pg_stat_activity WHERE application_name = 'probe' AND "
                        "wait_event = 'SyncRep'")
          .ok();
    }));
    Sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'probe'");
  }

  // Databases are dropped after this, which waits for commits.
  void TearDown() override { StopWaiting(); }

  void StopWaiting() {
    RawSession admin(SharedPostgres().server().ConnectionString());
    admin.Sql("ALTER SYSTEM RESET synchronous_standby_names");
    admin.Sql("SELECT pg_reload_conf()");
    EXPECT_TRUE(Eventually([&] {
      return ServerValue("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") ==
             "0";
    }));
  }

  // An attempt of somebody else whose lease is over.
  void InsertAbandoned(absl::string_view key) {
    Sql(absl::StrCat(
        "SET synchronous_commit = local; INSERT INTO idempotency_record (created_at, "
        "lease_expires_at, ttl_seconds, lease_ms, attempt_number, attempt_hash, flags, state, "
        "merchant_id, idempotency_key, fingerprint, operation) SELECT now() - interval '2 h', "
        "now() - interval '1 h', 60, 1000, 1, gen_random_uuid(), 0, 1, 'm1', '",
        key, "', decode(repeat('07', 32), 'hex'), 'POST /orders'"));
  }

  // A commit of the store is done on the primary and waits for the standby.
  std::string AwaitCommit(absl::string_view not_pid = "") { return AwaitWaiting("IPC", not_pid); }
};

TEST_F(LostCommitTest, BeginFindsItselfWhenItsConnectionIsTerminated) {
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*patient, "order-1"); });
  Terminate(AwaitCommit());
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(result->repeated);
  EXPECT_TRUE(result->wrote_attempt);
  EXPECT_EQ(result->record->attempt_number, 1);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 1);
}

TEST_F(LostCommitTest, BeginFindsItselfWhenTheCommitWasNotWaitedFor) {
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*patient, "order-1"); });
  // The server then reports success, and a WARNING.
  EXPECT_EQ(Value(absl::StrCat("SELECT pg_cancel_backend(", AwaitCommit(), ")")), "t");
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->repeated);
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 2);
}

TEST_F(LostCommitTest, BeginIsUnknownWhenTheTimerFiredAndTheCommitStillWaits) {
  PostgresStoreOptions options = Options();
  options.statement_timeout = absl::Milliseconds(300);
  options.commit_timeout = absl::Milliseconds(300);
  options.retry_budget = absl::Milliseconds(1500);
  const std::unique_ptr<Store> store = NewStore(options);
  // The transaction holds the key until the wait for the standby ends; nobody can see it yet.
  const auto result = BeginOn(*store, "order-1");
  EXPECT_EQ(FaultOf(result.status()), Fault::kCommitUnknown) << result.status();

  StopWaiting();
  const auto again = BeginOn(*store, "order-1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(again->repeated);
}

TEST_F(LostCommitTest, CompleteIsAlreadyRecordedWhenItsConnectionIsTerminated) {
  Sql("SET synchronous_commit = local; INSERT INTO idempotency_record (created_at, "
      "lease_expires_at, ttl_seconds, lease_ms, attempt_number, attempt_hash, flags, state, "
      "merchant_id, idempotency_key, fingerprint, operation) SELECT now(), now(), 60, 1000, 1, "
      "substr(sha256('attempt-1')::text, 3, 32)::uuid, 0, 1, 'm1', 'order-1', sha256(''), 'P'");
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  const OwnerItem item = Completed("order-1");
  const OwnerItem* const items[] = {&item};
  absl::StatusOr<OwnerResult> result;
  std::thread caller([&] { result = patient->OwnerBatch(items)[0]; });
  Terminate(AwaitCommit());
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(LostCommitTest, NextAttemptFindsItselfWhenItsConnectionIsTerminated) {
  InsertAbandoned("order-1");
  const WatchedClock watched(conninfo());
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*patient, "order-1"); });
  Terminate(AwaitCommit());
  caller.join();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(result->repeated);
  EXPECT_TRUE(result->wrote_attempt);  // so that the takeover is reported
  EXPECT_EQ(result->record->attempt_number, 2);
  EXPECT_EQ(result->record->unknown_attempts, 1);
}

TEST_F(LostCommitTest, SweepTellsWhatItMarkedWhenItsConnectionIsTerminated) {
  InsertAbandoned("order-1");
  const WatchedClock watched(conninfo());
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<std::vector<SweptRecord>> swept;
  std::thread caller([&] { swept = patient->SweepStep({0, 1000}, absl::ZeroDuration()); });
  Terminate(AwaitCommit());
  caller.join();

  ASSERT_TRUE(swept.ok()) << swept.status();
  ASSERT_EQ(swept->size(), 1u);
  EXPECT_EQ((*swept)[0].key.idempotency_key, "order-1");
  EXPECT_EQ(Value("SELECT state FROM idempotency_record"), "5");
}

TEST_F(LostCommitTest, PurgeOfUnsettledTellsWhatItDeletedWhenItsConnectionIsTerminated) {
  InsertAbandoned("order-1");
  const WatchedClock watched(conninfo());
  const std::unique_ptr<Store> patient = NewStore(PatientOptions());
  absl::StatusOr<std::vector<SweptRecord>> purged;
  std::thread caller([&] { purged = patient->PurgeUnsettledStep({0, 1000}, absl::Minutes(1)); });
  Terminate(AwaitCommit());
  caller.join();

  ASSERT_TRUE(purged.ok()) << purged.status();
  ASSERT_EQ(purged->size(), 1u);
  EXPECT_EQ((*purged)[0].key.idempotency_key, "order-1");
  EXPECT_EQ(Value("SELECT count(*) FROM idempotency_record"), "0");
}

TEST_F(LostCommitTest, IsUnknownWhenTheBudgetIsOver) {
  PostgresStoreOptions options = PatientOptions();
  options.retry_budget = absl::Milliseconds(1500);
  const std::unique_ptr<Store> store = NewStore(options);
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*store, "order-1"); });
  const std::string pid = AwaitCommit();
  AllowConnections(false);
  Terminate(pid);
  caller.join();
  AllowConnections(true);

  EXPECT_EQ(FaultOf(result.status()), Fault::kCommitUnknown) << result.status();
  // The same call repeated finds out.
  absl::StatusOr<BeginResult> again;
  ASSERT_TRUE(Eventually([&] {
    again = BeginOn(*store, "order-1");
    return again.ok();
  }));
  EXPECT_TRUE(again->repeated);
}

TEST(CommitTagTest, TellsACommitThatWasAnsweredByRollback) {
  const TestDatabase database;
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(
      PQconnectdb(database.conninfo().c_str()), &PQfinish);
  PQclear(PQexec(connection.get(), "BEGIN"));
  PQclear(PQexec(connection.get(), "SELECT 1 / 0"));
  const PgResult failed(PQexec(connection.get(), "COMMIT"));
  EXPECT_EQ(PQresultStatus(failed.get()), PGRES_COMMAND_OK);
  EXPECT_TRUE(WasRolledBack(failed.get()));

  PQclear(PQexec(connection.get(), "BEGIN"));
  const PgResult committed(PQexec(connection.get(), "COMMIT"));
  EXPECT_FALSE(WasRolledBack(committed.get()));
}

}  // namespace
}  // namespace idempotency
