// Durability::kReplicated where PostgreSQL is set up, or set anew, so that commits wait for nobody:
// then nothing is answered.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/record/fault.h"
#include "server/store/postgres/migrate.h"
#include "server/store/postgres/sql.h"
#include "tests/store/replicated_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

CommitSettings GoodSettings() {
  CommitSettings settings;
  settings.synchronous_commit = "on";
  settings.synchronous_standby_names = "ANY 1 (*)";
  settings.has_wal_senders = true;
  settings.loaded_at = absl::FromUnixSeconds(1'800'000'000);
  return settings;
}

TEST(CheckReplicates, TakesWhatWaitsForAStandby) {
  for (const char* commit : {"on", "remote_apply", "remote_write"}) {
    CommitSettings settings = GoodSettings();
    settings.synchronous_commit = commit;
    EXPECT_TRUE(CheckReplicates(settings).ok()) << commit;
  }
}

TEST(CheckReplicates, RefusesWhatDoesNotAndNamesTheSetting) {
  for (const char* commit : {"off", "local", "", "something new"}) {
    CommitSettings settings = GoodSettings();
    settings.synchronous_commit = commit;
    EXPECT_TRUE(absl::IsUnavailable(CheckReplicates(settings))) << commit;
    EXPECT_TRUE(absl::StrContains(CheckReplicates(settings).message(), "synchronous_commit"));
  }
  CommitSettings settings = GoodSettings();
  settings.synchronous_standby_names = "";
  EXPECT_TRUE(absl::IsUnavailable(CheckReplicates(settings)));
  EXPECT_TRUE(absl::StrContains(CheckReplicates(settings).message(), "synchronous_standby_names"));
  settings = GoodSettings();
  settings.has_wal_senders = false;
  EXPECT_TRUE(absl::IsUnavailable(CheckReplicates(settings)));
  EXPECT_TRUE(absl::StrContains(CheckReplicates(settings).message(), "max_wal_senders"));
}

TEST(CheckReplicated, LooksAtBothSidesOfTheCommitAndAtReloads) {
  EXPECT_TRUE(CheckReplicated(GoodSettings(), GoodSettings()).ok());
  CommitSettings bad = GoodSettings();
  bad.synchronous_standby_names = "";
  EXPECT_TRUE(absl::IsUnavailable(CheckReplicated(bad, GoodSettings())));
  EXPECT_TRUE(absl::IsUnavailable(CheckReplicated(GoodSettings(), bad)));
  CommitSettings loaded = GoodSettings();
  loaded.loaded_at += absl::Microseconds(1);
  EXPECT_TRUE(absl::IsAborted(CheckReplicated(GoodSettings(), loaded)));
}

// A setting, and a value with which commits do not wait.
struct BadSetting {
  const char* name;
  const char* value;
};
void PrintTo(const BadSetting& setting, std::ostream* out) {
  *out << setting.name << " = " << setting.value;
}

class BadSettings : public ReplicatedFixture, public ::testing::WithParamInterface<BadSetting> {
 protected:
  void Spoil() { Servers().AlterSystem(GetParam().name, GetParam().value); }
  void Mend() {
    Servers().ResetSystem("synchronous_commit");
    Servers().AlterSystem("synchronous_standby_names", "ANY 1 (*)");
  }
};

TEST_P(BadSettings, LetNoConnectedLaneSayThatAnAttemptStarted) {
  PostgresStoreOptions options = PatientOptions();
  options.retry_budget = absl::Seconds(5);
  const std::unique_ptr<Store> store = NewStore(options);
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  Spoil();
  // It has happened, on the primary alone.
  const auto unknown = BeginOn(*store, "order-1");
  EXPECT_EQ(FaultOf(unknown.status()), Fault::kCommitUnknown) << unknown.status();
  EXPECT_EQ(metrics().Value(Metric::kCircuitOpen), 1);
  // Its caller is not held while the batch is run again to no avail.
  EXPECT_EQ(metrics().Value(Metric::kCommitRetried), 0);
  // Nothing more happens.
  EXPECT_EQ(FaultOf(BeginOn(*store, "order-2").status()), Fault::kStoreUnavailable);
  EXPECT_EQ(AdminValue("SELECT count(*) FROM idempotency_record WHERE idempotency_key = 'order-2'"),
            "0");

  Mend();
  absl::StatusOr<BeginResult> again;
  ASSERT_TRUE(Eventually([&] {
    if (!store->Check().ok()) return false;
    again = BeginOn(*store, "order-1");
    return again.ok();
  }));
  EXPECT_TRUE(again->repeated);
}

TEST_P(BadSettings, LetNoConnectedLaneAnswerFromWhatItReads) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  Spoil();
  const auto found = LookupOn(*store, "order-1");
  EXPECT_EQ(FaultOf(found.status()), Fault::kStoreUnavailable) << found.status();
}

TEST_P(BadSettings, LetNoConnectedLaneSayThatAnOutcomeIsRecorded) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "order-1").ok());
  Spoil();
  const auto unknown = CompleteOn(*store, "order-1");
  EXPECT_EQ(FaultOf(unknown.status()), Fault::kCommitUnknown) << unknown.status();
}

TEST_P(BadSettings, AreNotReadyForAConnectedOrANewCheck) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(store->Check().ok());
  Spoil();
  const std::unique_ptr<Store> fresh = NewStore(PatientOptions());
  for (Store* each : {store.get(), fresh.get()}) {
    const absl::Status checked = each->Check();
    EXPECT_EQ(FaultOf(checked), Fault::kNotDurable) << checked;
    EXPECT_TRUE(absl::StrContains(checked.message(), GetParam().name)) << checked;
  }
  Mend();
  EXPECT_TRUE(Eventually([&] { return store->Check().ok(); })) << store->Check();
}

TEST_P(BadSettings, LetANewLaneDoNothing) {
  Spoil();
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  EXPECT_EQ(FaultOf(BeginOn(*store, "order-1").status()), Fault::kStoreUnavailable);
  EXPECT_EQ(AdminValue("SELECT count(*) FROM idempotency_record"), "0");
}

INSTANTIATE_TEST_SUITE_P(All, BadSettings,
                         ::testing::Values(BadSetting{"synchronous_commit", "off"},
                                           BadSetting{"synchronous_commit", "local"},
                                           BadSetting{"synchronous_standby_names", ""}));

class ReplicatedSettings : public ReplicatedFixture {};

TEST_F(ReplicatedSettings, OffForTheDatabaseIsRefused) {
  Admin(absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo()), " SET synchronous_commit = off"));
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  EXPECT_EQ(FaultOf(BeginOn(*store, "order-1").status()), Fault::kStoreUnavailable);
  EXPECT_TRUE(absl::StrContains(store->Check().message(), "synchronous_commit"));
}

TEST_F(ReplicatedSettings, OffForTheRoleIsRefused) {
  Admin("ALTER ROLE idempotencyd SET synchronous_commit = local");
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  EXPECT_EQ(FaultOf(BeginOn(*store, "order-1").status()), Fault::kStoreUnavailable);
  EXPECT_TRUE(absl::StrContains(store->Check().message(), "synchronous_commit"));
  Admin("ALTER ROLE idempotencyd RESET synchronous_commit");
}

// As a reload that comes between the look at the settings and the commit would.
TEST_F(ReplicatedSettings, TheSettingLookedAtIsTheCommitsOwn) {
  RawSession session(conninfo());
  session.Sql("BEGIN");
  session.Sql(QueryText(Query::kDurability));
  Servers().AlterSystem("synchronous_commit", "off");
  EXPECT_EQ(session.Sql("SHOW synchronous_commit"), "on");
  session.Sql("COMMIT");
  EXPECT_EQ(session.Sql("SHOW synchronous_commit"), "off");
}

TEST_F(ReplicatedSettings, RemoteApplyAndRemoteWriteServe) {
  for (const char* commit : {"remote_apply", "remote_write"}) {
    Servers().AlterSystem("synchronous_commit", commit);
    const std::unique_ptr<Store> store = NewStore(PatientOptions());
    EXPECT_TRUE(BeginOn(*store, commit).ok());
    EXPECT_TRUE(store->Check().ok()) << store->Check();
  }
}

// The server lets every waiting commit go then, as if it were replicated, and without a WARNING.
TEST_F(ReplicatedSettings, EmptiedNamesDuringTheWaitAreNoConfirmation) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  FreezeStandbys();
  absl::StatusOr<BeginResult> result;
  std::thread caller([&] { result = BeginOn(*store, "order-1"); });
  AwaitWaiting();
  Servers().AlterSystem("synchronous_standby_names", "");
  caller.join();
  EXPECT_EQ(FaultOf(result.status()), Fault::kCommitUnknown) << result.status();
}

// Emptied and set again before the session looks: the names alone tell nothing.
TEST_F(ReplicatedSettings, NamesEmptiedForAMomentDuringTheWaitAreNoConfirmation) {
  const std::unique_ptr<Store> store = NewStore(PatientOptions());
  ASSERT_TRUE(BeginOn(*store, "before").ok());
  FreezeStandbys();
  absl::StatusOr<BeginResult> result;
  std::atomic<bool> is_answered{false};
  std::thread caller([&] {
    result = BeginOn(*store, "order-1");
    is_answered = true;
  });
  const std::string pid = AwaitWaiting();
  ASSERT_EQ(kill(std::atoi(pid.c_str()), SIGSTOP), 0);
  Servers().AlterSystem("synchronous_standby_names", "");
  Servers().AlterSystem("synchronous_standby_names", "ANY 1 (*)");
  ASSERT_EQ(kill(std::atoi(pid.c_str()), SIGCONT), 0);
  // It does not believe it, and asks again with a barrier.
  AwaitWaiting(pid);
  EXPECT_FALSE(is_answered);
  ThawStandbys();
  caller.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->repeated);
}

TEST_F(ReplicatedSettings, NothingIsAnsweredWithoutWalSenders) {
  auto server = PrivatePostgres::Start(
      {.ephemeral = true,
       .settings = {
           {"fsync", "off"}, {"max_wal_senders", "0"}, {"synchronous_standby_names", "somebody"}}});
  ASSERT_TRUE(server.ok()) << server.status();
  PostgresStoreOptions options = PatientOptions();
  options.conninfo = (*server)->ConnectionString();
  ASSERT_TRUE(Migrate(options.conninfo).ok());
  const std::unique_ptr<Store> store = NewStore(options);
  EXPECT_EQ(FaultOf(BeginOn(*store, "order-1").status()), Fault::kStoreUnavailable);
  EXPECT_TRUE(absl::StrContains(store->Check().message(), "max_wal_senders")) << store->Check();
}

}  // namespace
}  // namespace idempotency
