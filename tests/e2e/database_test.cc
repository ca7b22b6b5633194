// The database restarted, killed, and its connections terminated, under load on three replicas:
// nothing acknowledged is lost, and no attempt is started twice.
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "server/store/postgres/migrate.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

constexpr int kCallers = 6;

// What the callers were told, of all keys.
class History {
 public:
  void Started(const v1::BeginResponse& response) {
    MutexLock lock(&mu_);
    // One attempt of a record has one attempt id, however often it is told.
    started_[{response.record_id(), response.started().attempt_number()}].insert(
        response.started().attempt_id());
  }
  void Recorded(const std::string& key, const std::string& body) {
    MutexLock lock(&mu_);
    recorded_[key] = body;
  }
  size_t RecordedCount() {
    MutexLock lock(&mu_);
    return recorded_.size();
  }
  std::map<std::string, std::string> recorded() {
    MutexLock lock(&mu_);
    return recorded_;
  }
  void ExpectNoDoubleStart() {
    MutexLock lock(&mu_);
    EXPECT_FALSE(started_.empty());
    for (const auto& [attempt, ids] : started_) {
      EXPECT_EQ(ids.size(), 1u) << attempt.first << " attempt " << attempt.second;
    }
  }

 private:
  Mutex mu_;
  std::map<std::pair<std::string, int>, std::set<std::string>> started_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> recorded_ ABSL_GUARDED_BY(mu_);
};

class DatabaseFaults : public testing::Test {
 protected:
  DatabaseFaults() : conninfo_(postgres_.CreateDatabase()) {
    EXPECT_TRUE(Migrate(conninfo_).ok());
    replicas_ = std::make_unique<ReplicaProcesses>(3, conninfo_);
  }

  // Repeats a call, on another replica each time, until the service has decided it.
  template <typename Call>
  auto Insist(int caller, const Call& call) {
    int tries = caller;
    auto called = call(replicas_->client(tries % 3));
    (void)Eventually([&] {
      const bool is_undecided = called.status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                                called.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      if (is_undecided) called = call(replicas_->client(++tries % 3));
      return !is_undecided;
    });
    return called;
  }

  // Two callers work on the same keys, each with attempts of its own, until told to stop.
  void Work(int caller, History* history, const std::atomic<bool>* enough) {
    for (int i = 0; !*enough; ++i) {
      const std::string key = absl::StrCat("key-", caller / 2, "-", i);
      const std::string attempt = absl::StrCat("caller-", caller, "-", i);
      const auto begun =
          Insist(caller, [&](Client& client) { return client.Begin(BeginOf(key, attempt)); });
      EXPECT_TRUE(begun.ok()) << begun.status.error_message();
      if (!begun.response.has_started()) continue;
      history->Started(begun.response);
      const std::string body = absl::StrCat("body of ", attempt);
      const auto completed = Insist(
          caller, [&](Client& client) { return client.Complete(CompleteOf(key, attempt, body)); });
      EXPECT_TRUE(completed.ok()) << completed.reason << completed.status.error_message();
      if (completed.ok()) history->Recorded(key, body);
    }
  }

  // Runs the load, `disturb` in the middle of it, and checks what was told against what is kept.
  void RunUnder(const std::function<void()>& disturb) {
    History history;
    std::atomic<bool> enough{false};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] { Work(caller, &history, &enough); });
    }
    for (int round = 0; round < 3; ++round) {
      const size_t before = history.RecordedCount();
      EXPECT_TRUE(Eventually([&] { return history.RecordedCount() >= before + 30; }));
      disturb();
    }
    const size_t before = history.RecordedCount();
    EXPECT_TRUE(Eventually([&] { return history.RecordedCount() >= before + 30; }));
    enough = true;
    for (std::thread& caller : callers) caller.join();

    history.ExpectNoDoubleStart();
    for (const auto& [key, body] : history.recorded()) {
      const auto replay = Insist(
          0, [&, &k = key](Client& client) { return client.Begin(BeginOf(k, "afterwards")); });
      ASSERT_TRUE(replay.response.has_replay()) << key;
      EXPECT_EQ(replay.response.replay().outcome().body(), body);
    }
    EXPECT_TRUE(Eventually([&] { return replicas_->client(0).IsServing(); }));
  }

  // A server of its own: others would not like what happens to it.
  TestPostgres postgres_;
  const std::string conninfo_;
  std::unique_ptr<ReplicaProcesses> replicas_;
};

TEST_F(DatabaseFaults, RestartLosesNothingAndStartsNothingTwice) {
  RunUnder([&] { ASSERT_TRUE(postgres_.server().Restart().ok()); });
}

TEST_F(DatabaseFaults, KilledServerLosesNothingAndStartsNothingTwice) {
  RunUnder([&] {
    postgres_.server().KillHard();
    ASSERT_TRUE(Eventually([&] { return postgres_.server().Restart().ok(); }));
  });
}

TEST_F(DatabaseFaults, TerminatedConnectionsLoseNothingAndStartNothingTwice) {
  RunUnder([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(Exec(conninfo_,
                       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                       " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
                      .ok());
    }
  });
}

TEST_F(DatabaseFaults, HealthFollowsTheDatabase) {
  postgres_.server().KillHard();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Eventually([&] { return !replicas_->client(i).IsServing(); }));
  }
  const auto refused = replicas_->client(0).Begin(BeginOf("k", "a"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(Eventually([&] { return postgres_.server().Restart().ok(); }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Eventually([&] { return replicas_->client(i).IsServing(); }));
  }
}

}  // namespace
}  // namespace idempotency
