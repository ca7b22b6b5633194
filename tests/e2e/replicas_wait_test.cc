// Waits and storms over three replicas, through gRPC on one real PostgreSQL.
#include <atomic>
#include <chrono>
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

// Begins that are under way at the same time.
class OpenBegins {
 public:
  void Add(Client& client, const std::string& key, const std::string& attempt,
           absl::Duration wait) {
    calls_.push_back(std::make_unique<Open>());
    Open& call = *calls_.back();
    call.request = BeginOf(key, attempt);
    SetDuration(call.request.mutable_wait_timeout(), wait);
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    client.stub()->async()->Begin(&call.context, &call.request, &call.response,
                                  [this, &call](const grpc::Status& status) {
                                    call.status = status;
                                    call.is_answered = true;
                                    ++answered_;
                                  });
  }
  ~OpenBegins() { EXPECT_TRUE(AwaitAll()); }

  bool AwaitAll() {
    return Eventually([&] { return answered_ == static_cast<int>(calls_.size()); },
                      absl::Minutes(2));
  }
  size_t size() const { return calls_.size(); }
  bool IsAnswered(size_t i) const { return calls_[i]->is_answered; }
  const std::string& attempt_id(size_t i) const { return calls_[i]->request.attempt_id(); }
  // REQUIRES: answered.
  const grpc::Status& status(size_t i) const { return calls_[i]->status; }
  const v1::BeginResponse& response(size_t i) const { return calls_[i]->response; }

 private:
  struct Open {
    grpc::ClientContext context;
    v1::BeginRequest request;
    v1::BeginResponse response;
    grpc::Status status;
    std::atomic<bool> is_answered{false};
  };
  std::vector<std::unique_ptr<Open>> calls_;
  std::atomic<int> answered_{0};
};

class ReplicasWait : public testing::Test {
 protected:
  static Settings WaitingSettings(const std::string& conninfo) {
    Settings settings = TestSettings(conninfo);
    settings.engine.waits_per_key_max = 1000;
    return settings;
  }
  bool AwaitWaiting(int replica, int64_t calls) {
    return Eventually(
        [&] { return replicas_[replica].metrics().Value(Metric::kWaiting) == calls; });
  }
  Client& client(int replica) { return replicas_[replica].client(); }

  MigratedDatabase database_;
  const Settings settings_ = WaitingSettings(database_.conninfo());
  LocalReplica replicas_[3] = {LocalReplica(settings_), LocalReplica(settings_),
                               LocalReplica(settings_)};
};

TEST_F(ReplicasWait, ThreeHundredWaitersGetTheOutcomeRecordedThroughAnotherReplica) {
  ASSERT_TRUE(client(0).Begin(BeginOf("k", "a")).response.has_started());
  OpenBegins waits;
  for (int i = 0; i < 300; ++i) {
    waits.Add(client(1 + i % 2), "k", absl::StrCat("waiter-", i), absl::Seconds(30));
  }
  ASSERT_TRUE(AwaitWaiting(1, 150));
  ASSERT_TRUE(AwaitWaiting(2, 150));
  const v1::CompleteRequest complete = CompleteOf("k", "a");
  ASSERT_TRUE(client(0).Complete(complete).ok());
  ASSERT_TRUE(waits.AwaitAll());
  for (size_t i = 0; i < waits.size(); ++i) {
    ASSERT_TRUE(waits.status(i).ok()) << waits.status(i).error_message();
    ASSERT_TRUE(waits.response(i).has_replay()) << waits.response(i).ShortDebugString();
    EXPECT_TRUE(
        MessageDifferencer::Equals(waits.response(i).replay().outcome(), complete.outcome()));
  }
  for (const int replica : {1, 2}) {
    EXPECT_EQ(replicas_[replica].metrics().Value(Metric::kWaitWokenByProbe), 150);
  }
}

TEST_F(ReplicasWait, OfAThousandBeginsOneStartsAndTheOthersGetItsOutcome) {
  OpenBegins calls;
  for (int i = 0; i < 1000; ++i) {
    calls.Add(client(i % 3), "k", absl::StrCat("storm-", i), absl::Seconds(30));
  }
  size_t starter = calls.size();
  ASSERT_TRUE(Eventually([&] {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls.IsAnswered(i)) starter = i;
    }
    return starter < calls.size();
  }));
  ASSERT_TRUE(calls.response(starter).has_started()) << calls.status(starter).error_message();
  v1::CompleteRequest complete = CompleteOf("k", "x");
  complete.set_attempt_id(calls.attempt_id(starter));
  ASSERT_TRUE(client(0).Complete(complete).ok());
  ASSERT_TRUE(calls.AwaitAll());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i == starter) continue;
    ASSERT_TRUE(calls.response(i).has_replay()) << calls.status(i).error_message();
    EXPECT_TRUE(
        MessageDifferencer::Equals(calls.response(i).replay().outcome(), complete.outcome()));
  }
}

TEST_F(ReplicasWait, RenewThroughAnotherReplicaKeepsTheWaiterFromTheWork) {
  v1::BeginRequest first = BeginOf("k", "a");
  SetDuration(first.mutable_lease_duration(), absl::Seconds(1));
  ASSERT_TRUE(client(0).Begin(first).response.has_started());
  OpenBegins waits;
  waits.Add(client(1), "k", "b", absl::Seconds(3));
  ASSERT_TRUE(AwaitWaiting(1, 1));
  ASSERT_TRUE(client(2).Renew(RenewOf("k", "a")).ok());
  ASSERT_TRUE(waits.AwaitAll());
  EXPECT_TRUE(waits.response(0).has_in_progress()) << waits.status(0).error_message();
  EXPECT_GT(waits.response(0).in_progress().lease_remaining().seconds(), 30);
}

}  // namespace
}  // namespace idempotency
