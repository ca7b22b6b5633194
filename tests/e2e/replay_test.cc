// Replays from a replica's memory, through gRPC on one real PostgreSQL: the same bytes, and never
// longer than they are true.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using google::protobuf::util::MessageDifferencer;

class ReplayEndToEnd : public testing::Test {
 protected:
  static Settings ShortSettings(const std::string& conninfo) {
    Settings settings = TestSettings(conninfo);
    settings.engine.policy.replay_window = absl::Seconds(2);
    settings.engine.policy.skew_margin = absl::Milliseconds(200);
    return settings;
  }
  // One lane, so that the first of these calls opens the lane's connection.
  static Settings OneLane(Settings settings) {
    settings.engine.lanes = 1;
    return settings;
  }
  static v1::BeginRequest ShortBegin(const std::string& key, const std::string& attempt) {
    v1::BeginRequest request = BeginOf(key, attempt);
    SetDuration(request.mutable_ttl(), absl::Seconds(1));
    return request;
  }
  // Completes the key through `client`, and has it replayed there from the database.
  static v1::BeginResponse Replayed(Client& client, const v1::BeginRequest& begin) {
    EXPECT_TRUE(client.Begin(begin).response.has_started());
    v1::CompleteRequest complete = CompleteOf(begin.idempotency_key(), "x", "the body");
    complete.set_attempt_id(begin.attempt_id());
    v1::Header* const header = complete.mutable_outcome()->add_headers();
    header->set_name("x-bytes");
    header->set_value(std::string("\0\xff", 2));
    EXPECT_TRUE(client.Complete(complete).ok());
    const auto read = client.Begin(BeginOf(begin.idempotency_key(), "reader"));
    EXPECT_TRUE(read.response.has_replay()) << read.status.error_message();
    EXPECT_TRUE(MessageDifferencer::Equals(read.response.replay().outcome(), complete.outcome()));
    return read.response;
  }

  MigratedDatabase database_;
};

TEST_F(ReplayEndToEnd, ReplayFromMemoryIsTheSameMessage) {
  LocalReplica replica(OneLane(TestSettings(database_.conninfo())));
  const v1::BeginResponse read = Replayed(replica.client(), BeginOf("k", "a"));
  for (const char* attempt : {"a", "b", "reader"}) {
    const auto again = replica.client().Begin(BeginOf("k", attempt));
    EXPECT_TRUE(MessageDifferencer::Equals(again.response, read));
  }
  EXPECT_EQ(replica.metrics().Value(Metric::kCacheHits), 3);
  EXPECT_EQ(replica.metrics().Value(Metric::kBeginReplay), 4);
}

TEST_F(ReplayEndToEnd, FinalFailureFromMemoryIsTheSameMessage) {
  LocalReplica replica(OneLane(TestSettings(database_.conninfo())));
  Client& client = replica.client();
  ASSERT_TRUE(client.Begin(BeginOf("k", "a")).response.has_started());
  ASSERT_TRUE(client.Fail(FailOf("k", "a", v1::FAILURE_DISPOSITION_FINAL)).ok());
  const auto read = client.Begin(BeginOf("k", "b"));
  const auto again = client.Begin(BeginOf("k", "c"));
  EXPECT_TRUE(again.response.replay().has_failure());
  EXPECT_TRUE(MessageDifferencer::Equals(again.response, read.response));
  EXPECT_EQ(replica.metrics().Value(Metric::kCacheHits), 1);
}

TEST_F(ReplayEndToEnd, OtherBodyIsRefusedBesideTheCache) {
  LocalReplica replica(OneLane(TestSettings(database_.conninfo())));
  Replayed(replica.client(), BeginOf("k", "a"));
  v1::BeginRequest other = BeginOf("k", "b");
  other.mutable_payload()->set_data("{\"amount\":\"100.01\"}");
  EXPECT_EQ(replica.client().Begin(other).reason, "KEY_REUSED");
  other = BeginOf("k", "b");
  other.set_operation("POST /refunds");
  EXPECT_EQ(replica.client().Begin(other).reason, "KEY_REUSED");
  // The same body in other words is the same request.
  v1::BeginRequest same = BeginOf("k", "b");
  same.mutable_payload()->set_data("{ \"amount\" : \"100.00\" }");
  EXPECT_TRUE(replica.client().Begin(same).response.has_replay());
}

TEST_F(ReplayEndToEnd, BadFieldsAreRefusedAlsoForAKeyInMemory) {
  LocalReplica replica(OneLane(TestSettings(database_.conninfo())));
  Replayed(replica.client(), BeginOf("k", "a"));
  v1::BeginRequest bad = BeginOf("k", "b");
  SetDuration(bad.mutable_ttl(), absl::Hours(24 * 365));
  EXPECT_EQ(replica.client().Begin(bad).reason, "INVALID_FIELD");
  bad = BeginOf("k", "b");
  SetDuration(bad.mutable_lease_duration(), -absl::Seconds(1));
  EXPECT_EQ(replica.client().Begin(bad).reason, "INVALID_FIELD");
}

TEST_F(ReplayEndToEnd, DeletedRecordIsForgottenWithinMaxAge) {
  Settings settings = OneLane(TestSettings(database_.conninfo()));
  settings.engine.cache_max_age = absl::Milliseconds(300);
  LocalReplica replica(settings);
  Replayed(replica.client(), BeginOf("k", "a"));
  ASSERT_TRUE(Exec(database_.conninfo(), "DELETE FROM idempotency_record").ok());
  EXPECT_TRUE(
      Eventually([&] { return replica.client().Begin(BeginOf("k", "b")).response.has_started(); }));
}

// Once the key is begun anew through one replica, no other may answer with what was before.
TEST_F(ReplayEndToEnd, KeyThatIsBegunAnewElsewhereIsNeverReplayed) {
  const Settings settings = OneLane(ShortSettings(database_.conninfo()));
  LocalReplica caching(settings);
  LocalReplica other(settings);
  for (int round = 0; round < 3; ++round) {
    const std::string key = absl::StrCat("k", round);
    Replayed(caching.client(), ShortBegin(key, "a"));
    EXPECT_TRUE(caching.client().Begin(ShortBegin(key, "b")).response.has_replay());
    EXPECT_TRUE(Eventually([&] {
      // Whatever this is answered, it keeps the record in the cache for as long as it may be there.
      (void)caching.client().Begin(ShortBegin(key, "a"));
      return other.client().Begin(ShortBegin(key, "new")).response.has_started();
    }));
    const auto after = caching.client().Begin(ShortBegin(key, "c"));
    EXPECT_TRUE(after.response.has_in_progress()) << after.response.ShortDebugString();
  }
}

class ReplayProcesses : public testing::Test {
 protected:
  MigratedDatabase database_;
  ReplicaProcesses replicas_{
      2, database_.conninfo(), {"--replay-window=2s", "--lanes=1", "--cache-max-age=60s"}};
};

TEST_F(ReplayProcesses, SuspendedReplicaDoesNotReplayWhatExpiredMeanwhile) {
  v1::BeginRequest first = BeginOf("k", "a");
  SetDuration(first.mutable_ttl(), absl::Seconds(1));
  ASSERT_TRUE(replicas_.client(0).Begin(first).response.has_started());
  ASSERT_TRUE(replicas_.client(0).Complete(CompleteOf("k", "a")).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(replicas_.client(0).Begin(BeginOf("k", "b")).response.has_replay());
  }
  replicas_.process(0).Signal(SIGSTOP);
  EXPECT_TRUE(Eventually(
      [&] { return replicas_.client(1).Begin(BeginOf("k", "new")).response.has_started(); }));
  replicas_.process(0).Signal(SIGCONT);
  EXPECT_TRUE(replicas_.client(0).Begin(BeginOf("k", "c")).response.has_in_progress());
}

}  // namespace
}  // namespace idempotency
