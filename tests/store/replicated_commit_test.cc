// Durability::kReplicated on a real primary with two standbys: commits that no standby confirms,
// whose wait is ended by force, and rows that are visible before a standby has them.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/record/fault.h"
#include "server/store/postgres/session.h"
#include "tests/store/replicated_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

class ReplicatedCommit : public ReplicatedFixture {
 protected:
  // Runs `call` while no standby confirms commits, ends the wait of its commit by `function` of
  // PostgreSQL, and runs `meanwhile` once the call waits again, in another session. Returns what
  // the call came to.
  template <typename Call>
  auto EndTheWaitOf(const Call& call, absl::string_view function,
                    const std::function<void()>& meanwhile) {
    FreezeStandbys();
    std::invoke_result_t<Call> result;
    std::thread caller([&] { result = call(); });
    const std::string first = AwaitWaiting();
    EXPECT_EQ(AdminValue(absl::StrCat("SELECT ", function, "(", first, ")")), "t");
    AwaitWaiting(first);
    meanwhile();
    caller.join();
    return result;
  }
};

// No standby confirms commits, and the row of order-1 is on none.
class UnreplicatedRow : public ReplicatedFixture {
 protected:
  void SetUp() override {
    ReplicatedFixture::SetUp();
    FreezeStandbys();
    InsertUnreplicated("order-1");
  }
};

TEST_F(ReplicatedCommit, AnswersWhenAStandbyConfirms) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  EXPECT_TRUE(store->Check().ok()) << store->Check();
  const auto begun = BeginOn(*store, "order-1");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->verdict, BeginVerdict::kStarted);
  EXPECT_FALSE(begun->repeated);
  EXPECT_EQ(CompleteOn(*store, "order-1")->verdict, OwnerVerdict::kRecorded);
  EXPECT_EQ(CompleteOn(*store, "order-1")->verdict, OwnerVerdict::kAlreadyRecorded);
  EXPECT_EQ(BeginOn(*store, "order-1", 2)->verdict, BeginVerdict::kReplay);
  EXPECT_EQ(LookupOn(*store, "order-1")->record->state, RecordState::kCompleted);
  EXPECT_EQ(LookupOn(*store, "order-2")->record, nullptr);
  EXPECT_EQ(metrics().Value(Metric::kReconnects), 2);  // one is the check's own
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 0);
}

TEST_F(ReplicatedCommit, OneOfTwoStandbysIsEnough) {
  Servers().standby(1).Freeze();
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  EXPECT_TRUE(BeginOn(*store, "order-1").ok());
  EXPECT_TRUE(store->Check().ok()) << store->Check();
}

// Every number here is a bound: of commits left behind, of connections, of waiting probes.
TEST_F(ReplicatedCommit, StandbysGoneOpenTheCircuitAndTheirReturnClosesIt) {
  const StoreFactory factory = NewFactory(HastyOptions());
  const std::unique_ptr<Store> lane = factory();
  const std::unique_ptr<Store> other_lane = factory();
  const std::unique_ptr<Store> health = factory();
  ASSERT_TRUE(BeginOn(*lane, "before").ok());
  ASSERT_TRUE(BeginOn(*other_lane, "before").ok());
  ASSERT_TRUE(health->Check().ok());
  FreezeStandbys();

  const auto unknown = BeginOn(*lane, "order-1");
  EXPECT_EQ(FaultOf(unknown.status()), Fault::kCommitUnknown) << unknown.status();
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpen), 1);
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpened), 1);
  EXPECT_EQ(metrics().Value(Metric::kCommitTimedOut), 1);
  EXPECT_EQ(CountWaiting(), 1);

  const int64_t connections = metrics().Value(Metric::kReconnects);
  for (int i = 0; i < 20; ++i) {
    for (Store* each : {lane.get(), other_lane.get()}) {
      const auto refused = BeginOn(*each, absl::StrCat("refused-", i));
      EXPECT_EQ(FaultOf(refused.status()), Fault::kStoreUnavailable) << refused.status();
      EXPECT_EQ(FaultOf(LookupOn(*each, "before").status()), Fault::kStoreUnavailable);
      EXPECT_EQ(FaultOf(CompleteOn(*each, "before").status()), Fault::kStoreUnavailable);
    }
  }
  EXPECT_EQ(metrics().Value(Metric::kReconnects), connections);
  EXPECT_EQ(CountWaiting(), 1);
  EXPECT_EQ(AdminValue("SELECT count(*) FROM idempotency_record WHERE idempotency_key LIKE "
                       "'refused%'"),
            "0");

  for (int i = 0; i < 3; ++i) {
    const absl::Status checked = health->Check();
    EXPECT_EQ(FaultOf(checked), Fault::kNotDurable) << checked;
    EXPECT_TRUE(absl::StrContains(checked.message(), "no standby")) << checked;
  }
  EXPECT_EQ(CountWaiting(), 2);

  ThawStandbys();
  ASSERT_TRUE(Eventually([&] { return health->Check().ok(); })) << health->Check();
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpen), 0);
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpened), 1);
  absl::StatusOr<BeginResult> again;
  ASSERT_TRUE(Eventually([&] {
    again = BeginOn(*lane, "order-1");
    return again.ok();
  })) << again.status();
  EXPECT_EQ(again->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(again->record->attempt_number, 1);
  EXPECT_TRUE(CompleteOn(*other_lane, "before").ok());
}

TEST_F(ReplicatedCommit, CompleteThatIsUnknownIsAlreadyRecordedAfterwards) {
  const std::unique_ptr<Store> store = NewStore(HastyOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  FreezeStandbys();
  const auto unknown = CompleteOn(*store, "order-1");
  EXPECT_EQ(FaultOf(unknown.status()), Fault::kCommitUnknown) << unknown.status();
  ThawStandbys();
  absl::StatusOr<OwnerResult> again;
  ASSERT_TRUE(Eventually([&] {
    if (!store->Check().ok()) return false;
    again = CompleteOn(*store, "order-1");
    return again.ok();
  }));
  EXPECT_EQ(again->verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(ReplicatedCommit, PurgeWhoseCommitIsNotConfirmedIsUnknownAndOpensTheCircuit) {
  const WatchedClock watched(conninfo());
  const std::unique_ptr<Store> store = NewStore(HastyOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  ASSERT_TRUE(CompleteOn(*store, "order-1").ok());
  Admin(
      "UPDATE idempotency_record SET created_at = now() - interval '90 d', finished_at = now() - "
      "interval '90 d'");
  FreezeStandbys();
  EXPECT_EQ(FaultOf(store->PurgeStep({0, 1000}).status()), Fault::kCommitUnknown);
  EXPECT_EQ(FaultOf(store->PurgeStep({0, 1000}).status()), Fault::kStoreUnavailable);
  EXPECT_EQ(CountWaiting(), 1);
}

TEST_F(ReplicatedCommit, SweepTellsWhatItMarkedThoughNoStandbyConfirmsIt) {
  const WatchedClock watched(conninfo());
  const std::unique_ptr<Store> store = NewStore(HastyOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  Admin("UPDATE idempotency_record SET lease_expires_at = now() - interval '1 h'");
  FreezeStandbys();
  const auto swept = store->SweepStep({0, 1000}, absl::ZeroDuration());
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->size(), 1u);
  EXPECT_EQ(FaultOf(store->SweepStep({0, 1000}, absl::ZeroDuration()).status()),
            Fault::kStoreUnavailable);
}

// Nobody calls while the standbys go: the first caller is refused at once all the same.
TEST_F(ReplicatedCommit, HealthCheckAloneOpensTheCircuit) {
  const StoreFactory factory = NewFactory(HastyOptions());
  const std::unique_ptr<Store> health = factory();
  ASSERT_TRUE(health->Check().ok());
  FreezeStandbys();
  EXPECT_TRUE(Eventually([&] {
    EXPECT_FALSE(health->Check().ok());
    return metrics().Value(Metric::kCircuitOpen) == 1;
  }));
  EXPECT_EQ(CountWaiting(), 1);
  EXPECT_EQ(FaultOf(BeginOn(*factory(), "order-1").status()), Fault::kStoreUnavailable);
  EXPECT_EQ(CountWaiting(), 1);
}

// The caller of a commit that another one's failure made hopeless is not held until its own timer.
TEST_F(ReplicatedCommit, CommitUnderWayIsGivenUpWhenTheCircuitOpens) {
  ConnectionOptions options;
  options.conninfo = conninfo();
  options.durability = Durability::kReplicated;
  options.commit_timeout = absl::Minutes(5);
  Circuit circuit(&metrics());
  Session session(options, BackoffOptions(), &metrics(), &circuit);
  ASSERT_FALSE(session.Run({{Query::kCheck, {}}}, AnswersFrom::kWhatItFound).failure.has_value());
  FreezeStandbys();
  PipelineOutcome outcome;
  std::thread caller([&] {
    outcome = session.Run({{Query::kCheck, {}}}, AnswersFrom::kWhatItFound);
  });
  AwaitWaiting();
  circuit.Open("another commit was not confirmed");
  caller.join();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_EQ(outcome.failure->effect, PipelineFailure::Effect::kLost);
  EXPECT_TRUE(outcome.failure->leaves_commit);
  EXPECT_EQ(circuit.Openings(), 1u);
}

// What ends the look at the settings after the commit does not end the commit.
TEST_F(ReplicatedCommit, ErrorAfterTheCommitIsNotTakenForARefusal) {
  // Called once when the connection is set up, then before and after each commit.
  Admin(
      "CREATE SCHEMA trap; CREATE SEQUENCE trap.calls; CREATE FUNCTION trap.pg_conf_load_time() "
      "RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN IF nextval('trap.calls') = 3 THEN RAISE "
      "EXCEPTION 'at the third call'; END IF; RETURN pg_catalog.pg_conf_load_time(); END $$");
  PostgresStoreOptions options = PatientOptions();
  options.conninfo += " options='-c search_path=trap,pg_catalog,public'";
  const std::unique_ptr<Store> store = NewStore(options);
  const auto begun = BeginOn(*store, "order-1");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->verdict, BeginVerdict::kStarted);
  EXPECT_TRUE(begun->repeated);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 1);
}

// The server reports success then, with a WARNING.
TEST_F(ReplicatedCommit, CancelledWaitIsSettledOnceAStandbyHasIt) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  // Run again on a new connection, it finds itself, and waits with its barrier.
  const auto result = EndTheWaitOf(
      [&] { return BeginOn(*store, "order-1"); }, "pg_cancel_backend",
      [&] {
        EXPECT_EQ(
            AdminValue("SELECT count(*) FROM idempotency_record WHERE idempotency_key = 'order-1'"),
            "1");
        ThawStandbys();
      });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->repeated);
  EXPECT_TRUE(result->wrote_attempt);
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 1);
}

TEST_F(ReplicatedCommit, TerminatedWaitIsSettledOnceAStandbyHasIt) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  const auto result =
      EndTheWaitOf([&] { return CompleteOn(*store, "order-1"); }, "pg_terminate_backend",
                   [&] {
                     EXPECT_EQ(AdminValue("SELECT state FROM idempotency_record"), "2");
                     ThawStandbys();
                   });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->verdict, OwnerVerdict::kAlreadyRecorded);
}

TEST_F(ReplicatedCommit, CancelledWaitIsUnknownWhenNoStandbyComesBack) {
  const StoreFactory factory = NewFactory(PatientOptions());
  const std::unique_ptr<Store> store = factory();
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  const auto result = EndTheWaitOf([&] { return BeginOn(*store, "order-1"); }, "pg_cancel_backend",
                                   [&] {
                                     // Another lane opens the circuit.
                                     Servers().AlterSystem("synchronous_commit", "off");
                                     EXPECT_FALSE(BeginOn(*factory(), "order-2").ok());
                                   });
  EXPECT_EQ(FaultOf(result.status()), Fault::kCommitUnknown) << result.status();
}

TEST_F(UnreplicatedRow, IsNotRepeated) {
  ExpectWaitsForStandby([](Store& store) {
    const auto result = BeginOn(store, "order-1");
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->repeated);
  });
}

TEST_F(UnreplicatedRow, IsNotToldToBeInProgress) {
  ExpectWaitsForStandby([](Store& store) {
    EXPECT_EQ(BeginOn(store, "order-1", 2)->verdict, BeginVerdict::kInProgress);
  });
}

TEST_F(UnreplicatedRow, IsNotReplayed) {
  Admin("UPDATE idempotency_record SET state = 2, finished_at = now()");
  ExpectWaitsForStandby([](Store& store) {
    EXPECT_EQ(BeginOn(store, "order-1", 2)->verdict, BeginVerdict::kReplay);
  });
}

TEST_F(UnreplicatedRow, IsNotLookedUp) {
  ExpectWaitsForStandby(
      [](Store& store) { EXPECT_NE(LookupOn(store, "order-1")->record, nullptr); });
}

TEST_F(UnreplicatedRow, AnotherThatIsMissingIsNotMissedEither) {
  ExpectWaitsForStandby(
      [](Store& store) { EXPECT_EQ(LookupOn(store, "order-2")->record, nullptr); });
}

TEST_F(UnreplicatedRow, LosesNobodyTheLease) {
  ExpectWaitsForStandby([](Store& store) {
    EXPECT_EQ(CompleteOn(store, "order-1", 2)->verdict, OwnerVerdict::kLeaseLost);
  });
}

TEST_F(UnreplicatedRow, KeepsNoRefusedAnswerOfAStranger) {
  // Locks the row, finds nothing to write, and answers from what it found.
  ExpectWaitsForStandby([](Store& store) {
    const OwnerItem item = Completed("order-1", 2);
    const OwnerItem* const items[] = {&item};
    EXPECT_FALSE(*store.KeepRefusedBatch(items)[0]);
  });
}

}  // namespace
}  // namespace idempotency
