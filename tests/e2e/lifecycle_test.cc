// A replica's beginning and end: readiness, draining, signals.
#include <sched.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libpq-fe.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::Not;

// A transaction of somebody else's that holds the row of a key.
class RowLock {
 public:
  RowLock(const std::string& conninfo, const std::string& key)
      : connection_(PQconnectdb(conninfo.c_str()), PQfinish) {
    PQclear(PQexec(connection_.get(), "BEGIN"));
    const std::string lock = absl::StrCat(
        "SELECT 1 FROM idempotency_record WHERE idempotency_key = '", key, "' FOR UPDATE");
    PGresult* const result = PQexec(connection_.get(), lock.c_str());
    EXPECT_EQ(PQntuples(result), 1) << PQerrorMessage(connection_.get());
    PQclear(result);
  }
  void Release() { PQclear(PQexec(connection_.get(), "COMMIT")); }

 private:
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

TEST(Lifecycle, ReplicaServesOnlyOnceTheSchemaFits) {
  const TestDatabase database;
  ServiceProcess process(ServeArguments(database.conninfo()));
  const std::string address = process.AwaitAddress();
  ASSERT_NE(address, "") << process.Log();
  Client client(address);
  EXPECT_FALSE(client.IsServing());
  const auto refused = client.Begin(BeginOf("k", "a"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason, "SCHEMA_INCOMPATIBLE");
  ASSERT_TRUE(Migrate(database.conninfo()).ok());
  EXPECT_TRUE(Eventually([&] { return client.IsServing(); }));
  EXPECT_TRUE(Eventually([&] { return client.Begin(BeginOf("k", "a")).ok(); }));
}

TEST(Lifecycle, ThreadsThatServeAreScheduledAsBatch) {
  ServiceProcess process(ServeArguments("host=127.0.0.1 port=1 dbname=none user=none"));
  ASSERT_NE(process.AwaitAddress(), "") << process.Log();
  int serving = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", process.pid(), "/task"))) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    // gRPC's own name for those that run the service's code.
    if (name != "nexting_thread") continue;
    ++serving;
    EXPECT_EQ(sched_getscheduler(std::stoi(task.path().filename())), SCHED_BATCH);
  }
  EXPECT_GT(serving, 0);
}

TEST(Lifecycle, ReplicaSaysInItsLogThatItIsInsecure) {
  ServiceProcess process(ServeArguments("host=127.0.0.1 port=1 dbname=none user=none"));
  ASSERT_NE(process.AwaitAddress(), "") << process.Log();
  EXPECT_THAT(process.Log(), HasSubstr(R"("level":"warn","event":"insecure")"));
}

TEST(Lifecycle, ReplicaStartsWithoutItsDatabaseAndFailsClosed) {
  // Nothing listens on a port of the reserved range.
  ServiceProcess process(ServeArguments("host=127.0.0.1 port=1 dbname=none user=none"));
  const std::string address = process.AwaitAddress();
  ASSERT_NE(address, "") << process.Log();
  Client client(address);
  EXPECT_FALSE(client.IsServing());
  const auto refused = client.Begin(BeginOf("k", "a"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason, "STORE_UNAVAILABLE");
}

TEST(Lifecycle, SigtermEndsAnIdleReplicaWithStatusZero) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const MigratedDatabase database;
    ReplicaProcesses replicas(1, database.conninfo());
    replicas.process(0).Signal(signal);
    ASSERT_TRUE(replicas.process(0).AwaitEnd());
    EXPECT_TRUE(replicas.process(0).Succeeded())
        << replicas.process(0).HowItEnded() << replicas.process(0).Log();
    EXPECT_THAT(replicas.process(0).Log(), HasSubstr("\"event\":\"stopped\""));
  }
}

TEST(Lifecycle, ReplicaServesDuringItsDrainDelayAndSaysNotServing) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo(), {"--drain-delay=1m"});
  replicas.process(0).Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return !replicas.client(0).IsServing(); }));
  EXPECT_TRUE(replicas.client(0).Begin(BeginOf("k", "a")).response.has_started());
  EXPECT_TRUE(replicas.process(0).Running());
}

TEST(Lifecycle, SecondSignalEndsTheProcessAtOnceWithAStatusOfItsOwn) {
  for (const auto& [signal, status] :
       {std::pair(SIGTERM, "exit status 143"), std::pair(SIGINT, "exit status 130")}) {
    const MigratedDatabase database;
    ReplicaProcesses replicas(1, database.conninfo(), {"--drain-delay=10m"});
    replicas.process(0).Signal(SIGTERM);
    EXPECT_TRUE(Eventually([&] { return !replicas.client(0).IsServing(); }));
    replicas.process(0).Signal(signal);
    ASSERT_TRUE(replicas.process(0).AwaitEnd());
    EXPECT_EQ(replicas.process(0).HowItEnded(), status);
    // What was logged until then is written.
    EXPECT_THAT(replicas.process(0).Log(), HasSubstr("\"event\":\"draining\""));
    EXPECT_THAT(replicas.process(0).Log(), Not(HasSubstr("\"event\":\"stopped\"")));
  }
}

TEST(Lifecycle, SecondSignalEndsADrainThatWaitsForTheDatabase) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo());
  ASSERT_TRUE(replicas.client(0).Begin(BeginOf("k", "a")).response.has_started());
  RowLock lock(database.conninfo(), "k");
  std::thread caller([&] { (void)replicas.client(0).Complete(CompleteOf("k", "a")); });
  EXPECT_TRUE(Eventually([&] {
    const auto waiting =
        QueryValue(database.conninfo(), "SELECT count(*) FROM pg_locks WHERE NOT granted");
    return waiting.ok() && *waiting != "0";
  }));
  replicas.process(0).Signal(SIGTERM);
  EXPECT_TRUE(
      Eventually([&] { return replicas.client(0).Begin(BeginOf("l", "a")).reason == "DRAINING"; }));
  replicas.process(0).Signal(SIGTERM);
  ASSERT_TRUE(replicas.process(0).AwaitEnd());
  EXPECT_EQ(replicas.process(0).HowItEnded(), "exit status 143");
  caller.join();
}

TEST(Lifecycle, CompleteThatIsQueuedWhenTheServerDrainsIsRecorded) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(2, database.conninfo());
  ASSERT_TRUE(replicas.client(0).Begin(BeginOf("k", "a")).response.has_started());
  RowLock lock(database.conninfo(), "k");
  Called<v1::CompleteResponse> completed;
  std::thread caller([&] { completed = replicas.client(0).Complete(CompleteOf("k", "a")); });
  // The row is waited for: the Complete is in the server.
  EXPECT_TRUE(Eventually([&] {
    const auto waiting =
        QueryValue(database.conninfo(), "SELECT count(*) FROM pg_locks WHERE NOT granted");
    return waiting.ok() && *waiting != "0";
  }));
  replicas.process(0).Signal(SIGTERM);
  EXPECT_TRUE(
      Eventually([&] { return !replicas.client(0).Begin(BeginOf("l", "a")).reason.empty(); }));
  EXPECT_TRUE(replicas.process(0).Running());
  lock.Release();
  caller.join();
  EXPECT_TRUE(completed.ok()) << completed.status.error_message();
  ASSERT_TRUE(replicas.process(0).AwaitEnd());
  EXPECT_TRUE(replicas.process(0).Succeeded()) << replicas.process(0).Log();
  EXPECT_TRUE(replicas.client(1).Begin(BeginOf("k", "b")).response.has_replay());
}

TEST(Lifecycle, NewCallsAreRefusedWhileTheServerDrains) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo());
  ASSERT_TRUE(replicas.client(0).Begin(BeginOf("k", "a")).response.has_started());
  RowLock lock(database.conninfo(), "k");
  std::thread caller([&] { (void)replicas.client(0).Complete(CompleteOf("k", "a")); });
  EXPECT_TRUE(Eventually([&] {
    const auto waiting =
        QueryValue(database.conninfo(), "SELECT count(*) FROM pg_locks WHERE NOT granted");
    return waiting.ok() && *waiting != "0";
  }));
  replicas.process(0).Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] {
    const auto refused = replicas.client(0).Begin(BeginOf("l", "a"));
    return refused.reason == "DRAINING" &&
           refused.status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }));
  lock.Release();
  caller.join();
}

TEST(Lifecycle, CompleteWhoseCallerHasLeftIsRecorded) {
  const MigratedDatabase database;
  LocalReplica replica(TestSettings(database.conninfo()));
  ASSERT_TRUE(replica.client().Begin(BeginOf("k", "a")).response.has_started());
  RowLock lock(database.conninfo(), "k");
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::CompleteResponse response;
    const grpc::Status status =
        replica.client().stub()->Complete(&context, CompleteOf("k", "a"), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(Eventually([&] {
    const auto waiting =
        QueryValue(database.conninfo(), "SELECT count(*) FROM pg_locks WHERE NOT granted");
    return waiting.ok() && *waiting != "0";
  }));
  context.TryCancel();
  caller.join();
  lock.Release();
  EXPECT_TRUE(Eventually([&] {
    return replica.client().Lookup(LookupOf("k")).response.state() == v1::RECORD_STATE_COMPLETED;
  }));
}

TEST(Lifecycle, NoSecretIsInTheLogOfARealReplica) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo(), {"--log-level=debug"});
  Client& client = replicas.client(0);
  v1::BeginRequest begin = BeginOf("k", "S3CR3T");
  begin.mutable_payload()->set_data("{\"card\":\"4111111111111111\"}");
  ASSERT_TRUE(client.Begin(begin).response.has_started());
  EXPECT_EQ(client.Complete(CompleteOf("k", "other", "S3CR3T")).reason, "LEASE_LOST");
  ASSERT_TRUE(client.Complete(CompleteOf("k", "S3CR3T", "4111111111111111")).ok());
  EXPECT_EQ(client.Complete(CompleteOf("k", "S3CR3T", "other")).reason, "OUTCOME_CONFLICT");
  EXPECT_TRUE(client.Begin(begin).response.has_replay());
  EXPECT_EQ(client.Begin(BeginOf("k", "S3CR3T")).reason, "KEY_REUSED");
  replicas.process(0).Signal(SIGTERM);
  ASSERT_TRUE(replicas.process(0).AwaitEnd());
  const std::string log = replicas.process(0).Log();
  EXPECT_THAT(log, HasSubstr("\"event\":\"replay\""));
  EXPECT_THAT(log, HasSubstr("\"event\":\"key_reused\""));
  EXPECT_THAT(log, HasSubstr("\"event\":\"refused_outcome\""));
  EXPECT_THAT(log, Not(HasSubstr("S3CR3T")));
  EXPECT_THAT(log, Not(HasSubstr("4111111111111111")));
}

}  // namespace
}  // namespace idempotency
