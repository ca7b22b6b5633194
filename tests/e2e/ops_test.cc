// The operations port of the real binary: what probes are told while the database comes and goes,
// and what is counted.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/store/postgres/migrate.h"
#include "server/store/postgres/sql.h"
#include "tests/e2e/client.h"
#include "tests/e2e/service_process.h"
#include "tests/ops/raw_client.h"
#include "tests/ops/strict_exposition.h"
#include "tests/util/eventually.h"
#include "tests/util/test_postgres.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class OpsPort : public testing::Test {
 protected:
  OpsPort() : conninfo_(postgres_.CreateDatabase()) { EXPECT_TRUE(Migrate(conninfo_).ok()); }

  // A replica that is ready.
  void Serve(const std::vector<std::string>& more = {}) {
    process_ = std::make_unique<ServiceProcess>(ServeArguments(conninfo_, more));
    port_ = process_->AwaitOpsPort();
    ASSERT_NE(port_, 0) << process_->Log();
    ASSERT_TRUE(Eventually([&] { return Page("/readyz").status == 200; })) << process_->Log();
    client_ = std::make_unique<Client>(process_->AwaitAddress());
  }
  HttpReply Page(const std::string& target) { return Get(port_, target); }
  bool BecomesReady() {
    return Eventually([&] { return Page("/readyz").status == 200; });
  }
  // Until /readyz?verbose holds the text, and says 503.
  void ExpectUnreadyWith(const std::string& text) {
    HttpReply reply;
    EXPECT_TRUE(Eventually([&] {
      reply = Page("/readyz?verbose");
      return reply.status == 503 && reply.body.find(text) != std::string::npos;
    })) << reply.body;
    EXPECT_EQ(Page("/livez").status, 200);
    const HttpReply brief = Page("/readyz");
    EXPECT_EQ(brief.status, 503);
    EXPECT_THAT(brief.body, StartsWith("not ready: "));
    // Where the database is, and what is asked of it, is nobody's business here.
    EXPECT_THAT(reply.body, AllOf(Not(HasSubstr(absl::StrCat(postgres_.server().port()))),
                                  Not(HasSubstr("127.0.0.1")), Not(HasSubstr("SELECT")),
                                  Not(HasSubstr("idempotency_record"))));
  }
  void Sql(const std::string& sql) {
    const absl::Status status = Exec(conninfo_, sql);
    EXPECT_TRUE(status.ok()) << status;
  }

  TestPostgres postgres_;
  const std::string conninfo_;
  std::unique_ptr<ServiceProcess> process_;
  std::unique_ptr<Client> client_;
  int port_ = 0;
};

TEST_F(OpsPort, ReadyzFollowsTheDatabase) {
  Serve();
  EXPECT_EQ(Page("/readyz?verbose").body,
            "[+]database ok\n[+]schema ok\n[+]durability ok: local\n"
            "[+]draining ok: not draining\nok\n");
  postgres_.server().KillHard();
  ExpectUnreadyWith("[-]database failed: ");
  ASSERT_TRUE(Eventually([&] { return postgres_.server().Restart().ok(); }));
  EXPECT_TRUE(BecomesReady());
}

TEST_F(OpsPort, ReadyzNamesBothVersionsWhenTheSchemaDoesNotFit) {
  Serve();
  const std::string range = absl::StrCat("versions ", kOldestSchema, " to ", kNewestSchema);
  Sql("INSERT INTO idempotency_migration VALUES (4711, 'from_the_future', '\\x00')");
  ExpectUnreadyWith(absl::StrCat(
      "[-]schema failed: the database's schema has version 4711, for servers of schema 4711 and "
      "newer; this server works with ",
      range));
  EXPECT_THAT(Page("/readyz?verbose").body, HasSubstr("[+]database ok\n"));
  Sql("DELETE FROM idempotency_migration WHERE version = 4711");
  EXPECT_TRUE(BecomesReady());
  Sql("ALTER TABLE idempotency_migration RENAME TO hidden;"
      "CREATE TABLE idempotency_migration (LIKE hidden)");
  ExpectUnreadyWith(absl::StrCat(
      "has version 0, for servers of schema 0 and newer; this server works with ", range));
}

TEST_F(OpsPort, ReadyzNamesTheSchemasWhenThereIsNone) {
  Serve();
  Sql("DROP TABLE idempotency_record, idempotency_migration");
  ExpectUnreadyWith(
      absl::StrCat("this server works with versions ", kOldestSchema, " to ", kNewestSchema));
  EXPECT_THAT(Page("/readyz?verbose").body,
              AllOf(HasSubstr("[+]database ok\n"), HasSubstr("[-]schema failed: ")));
}

TEST_F(OpsPort, ReadyzSaysWhenCommitsAreNotDurable) {
  Serve();
  const std::string database = absl::StrCat("ALTER DATABASE ", DatabaseName(conninfo_));
  Sql(absl::StrCat(database, " SET synchronous_commit = off"));
  // For the sessions that come.
  Sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
      " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
  ExpectUnreadyWith("[-]durability failed: synchronous_commit is off");
  EXPECT_THAT(Page("/readyz?verbose").body,
              AllOf(HasSubstr("[+]database ok\n"), HasSubstr("[+]schema ok\n")));
  Sql(absl::StrCat(database, " RESET synchronous_commit"));
  EXPECT_TRUE(BecomesReady());
}

TEST_F(OpsPort, ReadyzSaysThatItDrainsAndLivezThatItLives) {
  Serve({"--drain-delay=10m"});
  process_->Signal(SIGTERM);
  ExpectUnreadyWith("[-]draining failed: this replica is shutting down");
  EXPECT_THAT(Page("/readyz?verbose").body, HasSubstr("[+]database ok\n"));
  EXPECT_THAT(Page("/readyz").body, HasSubstr("not ready: draining"));
  // Calls are served until the delay is over.
  EXPECT_TRUE(client_->Begin(BeginOf("k", "a")).response.has_started());
  process_->Signal(SIGTERM);
  EXPECT_TRUE(process_->AwaitEnd());
}

TEST_F(OpsPort, ProcessEndsAlthoughConnectionsAreOpen) {
  Serve();
  const RawClient silent(port_);
  RawClient half(port_);
  half.Send("GET /livez HTTP/1.1\r\n");
  process_->Signal(SIGTERM);
  EXPECT_TRUE(process_->AwaitEnd());
  EXPECT_TRUE(process_->Succeeded()) << process_->HowItEnded();
}

TEST_F(OpsPort, MetricsAreRightAndZeroBeforeAnyCall) {
  Serve();
  const ParsedExposition parsed = ParseStrictly(Page("/metrics").body);
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  for (const auto& [sample, value] : parsed.families.at("grpc_server_handled_total").samples) {
    EXPECT_EQ(value, 0) << sample;
  }
  EXPECT_GT(parsed.Value("idempotency_store_reconnects_total"), 0);
  EXPECT_GT(parsed.Value("process_resident_memory_bytes"), 0);
}

TEST_F(OpsPort, CallsAreCountedByMethodAndCode) {
  Serve();
  ASSERT_TRUE(client_->Begin(BeginOf("k", "a")).ok());
  ASSERT_TRUE(client_->Complete(CompleteOf("k", "a")).ok());
  ASSERT_TRUE(client_->Begin(BeginOf("k", "b")).response.has_replay());
  ASSERT_EQ(client_->Lookup(LookupOf("unknown")).reason, "RECORD_NOT_FOUND");
  ASSERT_EQ(client_->Begin(v1::BeginRequest()).reason, "INVALID_FIELD");
  ASSERT_EQ(client_->Complete(CompleteOf("k", "other")).reason, "LEASE_LOST");
  const std::string text = Page("/metrics").body;
  const ParsedExposition parsed = ParseStrictly(text);
  EXPECT_THAT(parsed.mistakes, IsEmpty());
  const auto rpc = [&](const std::string& name, const std::string& method,
                       const std::string& code) {
    return parsed.Value(absl::StrCat(
        name, "{grpc_type=\"unary\",grpc_service=\"idempotency.v1.IdempotencyService\",",
        "grpc_method=\"", method, "\"", code.empty() ? "" : ",grpc_code=\"", code,
        code.empty() ? "" : "\"", "}"));
  };
  EXPECT_EQ(rpc("grpc_server_started_total", "Begin", ""), 3);
  EXPECT_EQ(rpc("grpc_server_handled_total", "Begin", "OK"), 2);
  EXPECT_EQ(rpc("grpc_server_handled_total", "Begin", "InvalidArgument"), 1);
  EXPECT_EQ(rpc("grpc_server_handling_seconds_count", "Begin", ""), 3);
  EXPECT_GT(rpc("grpc_server_handling_seconds_sum", "Begin", ""), 0);
  EXPECT_EQ(rpc("grpc_server_handled_total", "Complete", "OK"), 1);
  EXPECT_EQ(rpc("grpc_server_handled_total", "Complete", "Aborted"), 1);
  EXPECT_EQ(rpc("grpc_server_handled_total", "Lookup", "NotFound"), 1);
  EXPECT_EQ(parsed.Value("idempotency_begin_started_total"), 1);
  EXPECT_EQ(parsed.Value("idempotency_begin_replay_total"), 1);
  EXPECT_EQ(parsed.Value("idempotency_complete_recorded_total"), 1);
  EXPECT_EQ(parsed.Value("idempotency_fencing_refused_total"), 1);
  EXPECT_EQ(parsed.Value("idempotency_calls_in_flight"), 0);
  // No metric speaks of a key or a merchant.
  EXPECT_THAT(text, AllOf(Not(HasSubstr("acme")), Not(HasSubstr("\"k\""))));
}

TEST_F(OpsPort, SettingsAreShownWithoutSecrets) {
  Serve({"--lanes=3"});
  const std::string text = Page("/settings").body;
  const auto json = nlohmann::json::parse(text);
  std::map<std::string, std::string> values;
  std::map<std::string, std::string> sources;
  for (const auto& setting : json["settings"]) {
    values[setting["name"]] = setting["value"];
    sources[setting["name"]] = setting["source"];
  }
  EXPECT_EQ(values["lanes"], "3");
  EXPECT_EQ(sources["lanes"], "flag --lanes");
  EXPECT_EQ(sources["batch.max_items"], "default");
  EXPECT_EQ(values.count("database.url"), 1u);
  const size_t at = conninfo_.find("password=");
  if (at != std::string::npos) {
    const size_t begin = at + 9;
    const std::string password = conninfo_.substr(begin, conninfo_.find(' ', begin) - begin);
    EXPECT_THAT(text, Not(HasSubstr(password)));
  }
}

TEST_F(OpsPort, VersionSaysWhatRuns) {
  Serve();
  const auto json = nlohmann::json::parse(Page("/version").body);
  EXPECT_NE(json["version"], "");
  EXPECT_NE(json["commit"], "");
  EXPECT_EQ(json["oldest_schema"], kOldestSchema);
  EXPECT_EQ(json["newest_schema"], kNewestSchema);
}

TEST_F(OpsPort, CanBeOff) {
  ServiceProcess process(ServeArguments(conninfo_, {"--ops-listen=off"}));
  Client client(process.AwaitAddress());
  ASSERT_TRUE(Eventually([&] { return client.IsServing(); }));
  EXPECT_THAT(process.Log(), Not(HasSubstr("ops_listening")));
}

TEST_F(OpsPort, UsualAddressThatIsTakenDoesNotKeepAReplicaFromStarting) {
  std::vector<std::unique_ptr<ServiceProcess>> processes;
  std::vector<int> ports;
  for (int i = 0; i < 2; ++i) {
    processes.push_back(
        std::make_unique<ServiceProcess>(ServeArguments(conninfo_, {"--ops-listen=auto"})));
    ports.push_back(processes.back()->AwaitOpsPort());
    ASSERT_NE(ports.back(), 0) << processes.back()->Log();
  }
  EXPECT_NE(ports[0], ports[1]);
  for (const int port : ports) EXPECT_EQ(Get(port, "/livez").status, 200);
}

TEST_F(OpsPort, AddressThatWasAskedForAndIsTakenIsAFailureThatNamesTheSetting) {
  Serve();
  ServiceProcess second(
      ServeArguments(conninfo_, {absl::StrCat("--ops-listen=127.0.0.1:", port_)}));
  ASSERT_TRUE(second.AwaitEnd());
  EXPECT_FALSE(second.Succeeded());
  EXPECT_THAT(second.Log(), HasSubstr("ops.listen: cannot listen on 127.0.0.1:"));
}

TEST_F(OpsPort, HostileClientsDoNotDisturbTheService) {
  Serve();
  std::vector<std::unique_ptr<RawClient>> hostile;
  for (int i = 0; i < 200; ++i) {
    hostile.push_back(std::make_unique<RawClient>(port_));
    if (i % 3 == 0) hostile.back()->Send("GET /metrics HTTP/1.1\r\nA");
    if (i % 3 == 1) hostile.back()->Send(std::string(20'000, '\xff'));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(client_->Begin(BeginOf(absl::StrCat("k", i), "a")).response.has_started());
  }
  hostile.clear();
  EXPECT_EQ(Page("/livez").status, 200);
  EXPECT_EQ(Page("/readyz").status, 200);
}

}  // namespace
}  // namespace idempotency
