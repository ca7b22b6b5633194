// The cases the product exists for, through gRPC on a real PostgreSQL: reserving a key.
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/rpc/error_details.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using google::protobuf::util::MessageDifferencer;

class BeginEndToEnd : public testing::Test {
 protected:
  MigratedDatabase database_;
  LocalReplica one_{TestSettings(database_.conninfo())};
  LocalReplica two_{TestSettings(database_.conninfo())};
  Client& client_ = one_.client();
  Client& other_ = two_.client();
};

TEST_F(BeginEndToEnd, SecondOfTwoInQuickSuccessionIsInProgress) {
  const auto first = client_.Begin(BeginOf("k", "a"));
  const auto second = client_.Begin(BeginOf("k", "b"));
  ASSERT_TRUE(first.response.has_started()) << first.status.error_message();
  ASSERT_TRUE(second.response.has_in_progress()) << second.status.error_message();
  EXPECT_EQ(second.response.record_id(), first.response.record_id());
  EXPECT_GT(second.response.in_progress().retry_after().nanos() +
                second.response.in_progress().retry_after().seconds(),
            0);
}

TEST_F(BeginEndToEnd, SecondOnAnotherReplicaIsInProgress) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  EXPECT_TRUE(other_.Begin(BeginOf("k", "b")).response.has_in_progress());
}

TEST_F(BeginEndToEnd, OneOfTwoAtTheSameTimeIsStarted) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    Called<v1::BeginResponse> first;
    Called<v1::BeginResponse> second;
    std::thread racer([&] { first = client_.Begin(BeginOf(key, "a")); });
    second = other_.Begin(BeginOf(key, "b"));
    racer.join();
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first.response.has_started() + second.response.has_started(), 1);
    EXPECT_EQ(first.response.has_in_progress() + second.response.has_in_progress(), 1);
  }
}

TEST_F(BeginEndToEnd, SecondAfterCompleteIsTheIdenticalReplayOnEveryReplica) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  const v1::CompleteRequest complete = CompleteOf("k", "a");
  ASSERT_TRUE(client_.Complete(complete).ok());
  const auto second = client_.Begin(BeginOf("k", "b"));
  const auto third = other_.Begin(BeginOf("k", "c"));
  ASSERT_TRUE(second.response.has_replay());
  EXPECT_TRUE(MessageDifferencer::Equals(second.response.replay().outcome(), complete.outcome()));
  EXPECT_TRUE(MessageDifferencer::Equals(second.response, third.response));
}

TEST_F(BeginEndToEnd, ReplayIsItsOwnBranchWithTheOriginalsTimeAndNumber) {
  const auto started = client_.Begin(BeginOf("k", "a"));
  const auto completed = client_.Complete(CompleteOf("k", "a"));
  const auto replay = client_.Begin(BeginOf("k", "a"));
  ASSERT_TRUE(replay.response.has_replay());
  EXPECT_FALSE(replay.response.has_started());
  EXPECT_EQ(replay.response.replay().attempt_number(), 1);
  EXPECT_TRUE(MessageDifferencer::Equals(replay.response.replay().finish_time(),
                                         completed.response.finish_time()));
  EXPECT_EQ(replay.response.record_id(), started.response.record_id());
}

TEST_F(BeginEndToEnd, OtherBodyIsKeyReusedAndLeavesTheRecordAlone) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  ASSERT_TRUE(client_.Complete(CompleteOf("k", "a")).ok());
  const auto before = client_.Lookup(LookupOf("k"));
  v1::BeginRequest other = BeginOf("k", "b");
  other.mutable_payload()->set_data("{\"amount\":\"999.00\"}");
  const auto reused = client_.Begin(other);
  EXPECT_EQ(reused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(reused.reason, "KEY_REUSED");
  const auto info = DetailOf<google::rpc::ErrorInfo>(reused.status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("record_id"), before.response.record_id());
  EXPECT_EQ(info->metadata().at("state"), "COMPLETED");
  EXPECT_TRUE(MessageDifferencer::Equals(before.response, client_.Lookup(LookupOf("k")).response));
}

TEST_F(BeginEndToEnd, OtherOperationIsKeyReused) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  v1::BeginRequest other = BeginOf("k", "b");
  other.set_operation("POST /refunds");
  EXPECT_EQ(client_.Begin(other).reason, "KEY_REUSED");
}

TEST_F(BeginEndToEnd, SameDocumentWrittenInAnotherWayIsTheSameRequest) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  v1::BeginRequest other = BeginOf("k", "b");
  other.mutable_payload()->set_data(" { \"amount\" : \"100\\u002e00\" } ");
  EXPECT_TRUE(client_.Begin(other).response.has_in_progress());
}

TEST_F(BeginEndToEnd, SameKeyOfTwoMerchantsStartsTwice) {
  v1::BeginRequest other = BeginOf("k", "a");
  other.set_merchant_id("bazaar");
  const auto first = client_.Begin(BeginOf("k", "a"));
  const auto second = client_.Begin(other);
  ASSERT_TRUE(first.response.has_started());
  ASSERT_TRUE(second.response.has_started());
  EXPECT_NE(first.response.record_id(), second.response.record_id());
  EXPECT_NE(first.response.started().downstream_key(), second.response.started().downstream_key());
}

TEST_F(BeginEndToEnd, SameBodyUnderAnotherKeyStarts) {
  EXPECT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  EXPECT_TRUE(client_.Begin(BeginOf("l", "a")).response.has_started());
}

TEST_F(BeginEndToEnd, RepeatAfterALostAnswerIsTheSameAttemptOnEveryReplica) {
  const auto lost = client_.Begin(BeginOf("k", "a"));
  for (Client* client : {&client_, &other_}) {
    const auto repeat = client->Begin(BeginOf("k", "a"));
    ASSERT_TRUE(repeat.response.has_started()) << repeat.status.error_message();
    EXPECT_TRUE(repeat.response.started().repeated());
    EXPECT_EQ(repeat.response.record_id(), lost.response.record_id());
    EXPECT_EQ(repeat.response.started().attempt_number(), 1);
    EXPECT_EQ(repeat.response.started().fencing_token(), lost.response.started().fencing_token());
    EXPECT_EQ(repeat.response.started().downstream_key(), lost.response.started().downstream_key());
  }
}

TEST_F(BeginEndToEnd, LateDuplicateOfAnEarlierAttemptsBeginIsLeaseLost) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  ASSERT_TRUE(client_.Fail(FailOf("k", "a", v1::FAILURE_DISPOSITION_UNKNOWN)).ok());
  ASSERT_TRUE(client_.Begin(BeginOf("k", "b")).response.has_started());
  const auto late = other_.Begin(BeginOf("k", "a"));
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(late.reason, "LEASE_LOST");
}

TEST_F(BeginEndToEnd, ReleasedKeyStartsAnewAtOnce) {
  const auto first = client_.Begin(BeginOf("k", "a"));
  ASSERT_TRUE(client_.Fail(FailOf("k", "a", v1::FAILURE_DISPOSITION_NOT_APPLIED)).ok());
  const auto second = client_.Begin(BeginOf("k", "b"));
  ASSERT_TRUE(second.response.has_started());
  EXPECT_EQ(second.response.started().attempt_number(), 2);
  EXPECT_EQ(second.response.started().unknown_attempts(), 0);
  EXPECT_EQ(second.response.started().previous_attempt().failure().disposition(),
            v1::FAILURE_DISPOSITION_NOT_APPLIED);
  EXPECT_GT(second.response.started().fencing_token(), first.response.started().fencing_token());
  EXPECT_EQ(second.response.started().downstream_key(), first.response.started().downstream_key());
}

TEST_F(BeginEndToEnd, LongestKeyIsKeptByteForByte) {
  const std::string key(255, '~');
  ASSERT_TRUE(client_.Begin(BeginOf(key, "a")).response.has_started());
  EXPECT_TRUE(client_.Begin(BeginOf(key, "b")).response.has_in_progress());
  EXPECT_TRUE(client_.Begin(BeginOf(key.substr(1), "a")).response.has_started());
}

TEST_F(BeginEndToEnd, KeyIsNeitherTrimmedNorFolded) {
  EXPECT_TRUE(client_.Begin(BeginOf("Order 1", "a")).response.has_started());
  EXPECT_TRUE(client_.Begin(BeginOf("order 1", "a")).response.has_started());
  EXPECT_TRUE(client_.Begin(BeginOf("order 1 ", "a")).response.has_started());
  EXPECT_TRUE(client_.Begin(BeginOf(" order 1", "a")).response.has_started());
}

TEST_F(BeginEndToEnd, LookupOfAnUnknownKeyIsNotFound) {
  EXPECT_EQ(client_.Lookup(LookupOf("nothing")).reason, "RECORD_NOT_FOUND");
}

class ExpiryEndToEnd : public testing::Test {
 protected:
  static Settings ShortRetention(const std::string& conninfo) {
    Settings settings = TestSettings(conninfo);
    settings.engine.policy.replay_window = absl::Milliseconds(500);
    return settings;
  }
  MigratedDatabase database_;
  LocalReplica replica_{ShortRetention(database_.conninfo())};
  Client& client_ = replica_.client();
};

TEST_F(ExpiryEndToEnd, KeyAfterItsRetentionIsANewRecordNotAnError) {
  v1::BeginRequest request = BeginOf("k", "a");
  SetDuration(request.mutable_ttl(), absl::Seconds(1));
  const auto first = client_.Begin(request);
  ASSERT_TRUE(first.response.has_started());
  ASSERT_TRUE(client_.Complete(CompleteOf("k", "a")).ok());
  // Another body, too: the expired record compares with nothing.
  v1::BeginRequest next = BeginOf("k", "b");
  next.mutable_payload()->set_data("{\"amount\":\"1.00\"}");
  Called<v1::BeginResponse> second;
  ASSERT_TRUE(Eventually([&] {
    second = client_.Begin(next);
    return second.ok();
  }));
  ASSERT_TRUE(second.response.has_started());
  EXPECT_EQ(second.response.started().attempt_number(), 1);
  EXPECT_FALSE(second.response.started().has_previous_attempt());
  EXPECT_NE(second.response.record_id(), first.response.record_id());
  EXPECT_NE(second.response.started().downstream_key(), first.response.started().downstream_key());
  EXPECT_GT(second.response.started().fencing_token(), first.response.started().fencing_token());
}

TEST_F(ExpiryEndToEnd, LateDuplicateOfAnExpiredRecordsBeginIsLeaseLost) {
  v1::BeginRequest request = BeginOf("k", "a");
  SetDuration(request.mutable_ttl(), absl::Seconds(1));
  ASSERT_TRUE(client_.Begin(request).response.has_started());
  ASSERT_TRUE(client_.Complete(CompleteOf("k", "a")).ok());
  ASSERT_TRUE(Eventually([&] { return client_.Lookup(LookupOf("k")).response.expired(); }));
  EXPECT_EQ(client_.Begin(request).reason, "LEASE_LOST");
}

TEST_F(ExpiryEndToEnd, UnsettledRecordDoesNotExpire) {
  v1::BeginRequest request = BeginOf("k", "a");
  SetDuration(request.mutable_ttl(), absl::Seconds(1));
  const auto first = client_.Begin(request);
  ASSERT_TRUE(client_.Fail(FailOf("k", "a", v1::FAILURE_DISPOSITION_UNKNOWN)).ok());
  // Another record that is settled shows when its retention, begun later, is over.
  request.set_idempotency_key("settled");
  ASSERT_TRUE(client_.Begin(request).response.has_started());
  ASSERT_TRUE(client_.Complete(CompleteOf("settled", "a")).ok());
  ASSERT_TRUE(Eventually([&] { return client_.Lookup(LookupOf("settled")).response.expired(); }));
  EXPECT_FALSE(client_.Lookup(LookupOf("k")).response.expired());
  const auto next = client_.Begin(BeginOf("k", "b"));
  EXPECT_EQ(next.response.record_id(), first.response.record_id());
  EXPECT_EQ(next.response.started().unknown_attempts(), 1);
}

}  // namespace
}  // namespace idempotency
