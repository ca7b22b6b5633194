// Begins that wait for another attempt's outcome, through gRPC on a real PostgreSQL.
#include <string>
#include <thread>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using google::protobuf::util::MessageDifferencer;

class WaitEndToEnd : public testing::Test {
 protected:
  static v1::BeginRequest WaitingBegin(const std::string& key, const std::string& attempt) {
    v1::BeginRequest request = BeginOf(key, attempt);
    SetDuration(request.mutable_wait_timeout(), absl::Seconds(20));
    return request;
  }
  bool AwaitWaiting(int64_t calls) {
    return Eventually([&] { return replica_.metrics().Value(Metric::kWaiting) == calls; });
  }

  MigratedDatabase database_;
  LocalReplica replica_{TestSettings(database_.conninfo())};
  Client& client_ = replica_.client();
};

TEST_F(WaitEndToEnd, DuplicateGetsTheOriginalOutcome) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  Called<v1::BeginResponse> waited;
  std::thread duplicate([&] { waited = client_.Begin(WaitingBegin("k", "b")); });
  EXPECT_TRUE(AwaitWaiting(1));
  const v1::CompleteRequest complete = CompleteOf("k", "a");
  EXPECT_TRUE(client_.Complete(complete).ok());
  duplicate.join();
  ASSERT_TRUE(waited.response.has_replay()) << waited.status.error_message();
  EXPECT_TRUE(MessageDifferencer::Equals(waited.response.replay().outcome(), complete.outcome()));
}

TEST_F(WaitEndToEnd, OneOfManyWaitersTakesAReleasedKey) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  constexpr int kWaiters = 8;
  std::vector<Called<v1::BeginResponse>> waited(kWaiters);
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&, i] {
      waited[static_cast<size_t>(i)] = client_.Begin(WaitingBegin("k", "b" + std::to_string(i)));
    });
  }
  EXPECT_TRUE(AwaitWaiting(kWaiters));
  EXPECT_TRUE(client_.Fail(FailOf("k", "a", v1::FAILURE_DISPOSITION_NOT_APPLIED)).ok());
  // The one that starts says who it is; the others go on waiting for it.
  std::string starter;
  EXPECT_TRUE(
      Eventually([&] { return client_.Lookup(LookupOf("k")).response.attempt_number() == 2; }));
  EXPECT_TRUE(AwaitWaiting(kWaiters - 1));
  for (int i = 0; i < kWaiters; ++i) {
    (void)client_.Complete(CompleteOf("k", "b" + std::to_string(i)));
  }
  for (std::thread& waiter : waiters) waiter.join();
  int started = 0;
  int replayed = 0;
  for (const auto& called : waited) {
    started += called.response.has_started() ? 1 : 0;
    replayed += called.response.has_replay() ? 1 : 0;
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(replayed, kWaiters - 1);
}

TEST_F(WaitEndToEnd, WaiterTakesOverWhenTheLeaseIsOver) {
  v1::BeginRequest first = BeginOf("k", "a");
  SetDuration(first.mutable_lease_duration(), absl::Milliseconds(300));
  ASSERT_TRUE(client_.Begin(first).response.has_started());
  const auto waited = client_.Begin(WaitingBegin("k", "b"));
  ASSERT_TRUE(waited.response.has_started()) << waited.status.error_message();
  EXPECT_EQ(waited.response.started().attempt_number(), 2);
  EXPECT_EQ(waited.response.started().unknown_attempts(), 1);
}

TEST_F(WaitEndToEnd, WaitThatEndsIsInProgress) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  v1::BeginRequest request = BeginOf("k", "b");
  SetDuration(request.mutable_wait_timeout(), absl::Milliseconds(50));
  EXPECT_TRUE(client_.Begin(request).response.has_in_progress());
}

TEST_F(WaitEndToEnd, DrainingAnswersWaitersInProgress) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  Called<v1::BeginResponse> waited;
  std::thread duplicate([&] { waited = client_.Begin(WaitingBegin("k", "b")); });
  EXPECT_TRUE(AwaitWaiting(1));
  replica_.replica().Stop(absl::ZeroDuration());
  duplicate.join();
  EXPECT_TRUE(waited.response.has_in_progress()) << waited.status.error_message();
}

}  // namespace
}  // namespace idempotency
