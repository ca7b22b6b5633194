// The cases the product exists for, through gRPC on a real PostgreSQL: recording what happened.
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using google::protobuf::util::MessageDifferencer;

class FinishEndToEnd : public testing::Test {
 protected:
  // A Begin whose lease ends almost at once, and is over when this returns.
  void BeginAndLetTheLeaseEnd(const std::string& key, const std::string& attempt) {
    v1::BeginRequest request = BeginOf(key, attempt);
    SetDuration(request.mutable_lease_duration(), absl::Milliseconds(100));
    ASSERT_TRUE(client_.Begin(request).response.has_started());
    ASSERT_TRUE(Eventually([&] {
      return client_.Lookup(LookupOf(key)).response.state() == v1::RECORD_STATE_ABANDONED;
    }));
  }

  MigratedDatabase database_;
  LocalReplica one_{TestSettings(database_.conninfo())};
  LocalReplica two_{TestSettings(database_.conninfo())};
  Client& client_ = one_.client();
  Client& other_ = two_.client();
};

TEST_F(FinishEndToEnd, LateCompleteWithoutANewerAttemptIsRecorded) {
  BeginAndLetTheLeaseEnd("k", "a");
  const auto late = other_.Complete(CompleteOf("k", "a"));
  ASSERT_TRUE(late.ok()) << late.status.error_message();
  EXPECT_TRUE(client_.Begin(BeginOf("k", "b")).response.has_replay());
}

TEST_F(FinishEndToEnd, LateCompleteWithANewerAttemptIsLeaseLostAndKeptAsEvidence) {
  BeginAndLetTheLeaseEnd("k", "a");
  ASSERT_TRUE(client_.Begin(BeginOf("k", "b")).response.has_started());
  v1::CompleteRequest complete = CompleteOf("k", "a");
  complete.mutable_outcome()->set_response_id("pay-late");
  const auto late = other_.Complete(complete);
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(late.reason, "LEASE_LOST");
  v1::LookupResponse seen;
  ASSERT_TRUE(Eventually([&] {
    seen = client_.Lookup(LookupOf("k")).response;
    return seen.has_refused_outcome();
  }));
  EXPECT_EQ(seen.refused_outcome().status_code(), 201);
  EXPECT_EQ(seen.refused_outcome().response_id(), "pay-late");
  EXPECT_EQ(seen.refused_outcome().attempt_number(), 1);
  EXPECT_EQ(seen.state(), v1::RECORD_STATE_IN_PROGRESS);
  EXPECT_TRUE(client_.Complete(CompleteOf("k", "b")).ok());
}

TEST_F(FinishEndToEnd, CompleteTwiceWithTheSameContentIsAlreadyRecorded) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  const auto first = client_.Complete(CompleteOf("k", "a"));
  const auto second = other_.Complete(CompleteOf("k", "a"));
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(first.response.already_recorded());
  EXPECT_TRUE(second.response.already_recorded());
  EXPECT_TRUE(
      MessageDifferencer::Equals(first.response.finish_time(), second.response.finish_time()));
}

TEST_F(FinishEndToEnd, CompleteTwiceWithOtherContentConflictsAndTheFirstStays) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  ASSERT_TRUE(client_.Complete(CompleteOf("k", "a", "first")).ok());
  const auto second = other_.Complete(CompleteOf("k", "a", "second"));
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(second.reason, "OUTCOME_CONFLICT");
  EXPECT_EQ(client_.Begin(BeginOf("k", "b")).response.replay().outcome().body(), "first");
}

TEST_F(FinishEndToEnd, CompleteRacingFailHasOneWinnerThatEverybodySees) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_TRUE(client_.Begin(BeginOf(key, "a")).response.has_started());
    Called<v1::FailResponse> fail;
    std::thread failing(
        [&] { fail = other_.Fail(FailOf(key, "a", v1::FAILURE_DISPOSITION_FINAL)); });
    const auto complete = client_.Complete(CompleteOf(key, "a"));
    failing.join();
    ASSERT_NE(complete.ok(), fail.ok());
    EXPECT_EQ(complete.ok() ? fail.reason : complete.reason, "OUTCOME_CONFLICT");
    for (Client* client : {&client_, &other_}) {
      const auto replay = client->Begin(BeginOf(key, "b"));
      EXPECT_EQ(replay.response.replay().has_outcome(), complete.ok());
      EXPECT_EQ(replay.response.replay().has_failure(), fail.ok());
    }
  }
}

TEST_F(FinishEndToEnd, FinishOfAnUnknownKeyIsNotFound) {
  EXPECT_EQ(client_.Complete(CompleteOf("nothing", "a")).reason, "RECORD_NOT_FOUND");
  EXPECT_EQ(client_.Fail(FailOf("nothing", "a", v1::FAILURE_DISPOSITION_FINAL)).reason,
            "RECORD_NOT_FOUND");
  EXPECT_EQ(client_.Renew(RenewOf("nothing", "a")).reason, "RECORD_NOT_FOUND");
}

TEST_F(FinishEndToEnd, StrangersAttemptIsLeaseLost) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  EXPECT_EQ(client_.Complete(CompleteOf("k", "b")).reason, "LEASE_LOST");
  EXPECT_EQ(client_.Renew(RenewOf("k", "b")).reason, "LEASE_LOST");
  EXPECT_TRUE(client_.Complete(CompleteOf("k", "a")).ok());
}

TEST_F(FinishEndToEnd, FinalFailureIsReplayedLikeAnOutcome) {
  ASSERT_TRUE(client_.Begin(BeginOf("k", "a")).response.has_started());
  v1::FailRequest fail = FailOf("k", "a", v1::FAILURE_DISPOSITION_FINAL);
  fail.mutable_failure()->set_code("declined");
  fail.mutable_failure()->set_message("no funds: \xe2\x82\xac");
  fail.mutable_failure()->mutable_outcome()->set_status_code(402);
  ASSERT_TRUE(client_.Fail(fail).ok());
  const auto replay = other_.Begin(BeginOf("k", "b"));
  EXPECT_TRUE(MessageDifferencer::Equals(replay.response.replay().failure(), fail.failure()));
}

TEST_F(FinishEndToEnd, RenewExtendsTheLeaseAndEndsWithTheWork) {
  v1::BeginRequest request = BeginOf("k", "a");
  SetDuration(request.mutable_lease_duration(), absl::Seconds(60));
  ASSERT_TRUE(client_.Begin(request).response.has_started());
  v1::RenewRequest renew = RenewOf("k", "a");
  SetDuration(renew.mutable_lease_duration(), absl::Minutes(30));
  const auto renewed = other_.Renew(renew);
  ASSERT_TRUE(renewed.ok()) << renewed.status.error_message();
  EXPECT_GT(renewed.response.lease_remaining().seconds(), 60);
  ASSERT_TRUE(client_.Complete(CompleteOf("k", "a")).ok());
  EXPECT_EQ(client_.Renew(renew).reason, "ALREADY_FINISHED");
}

// One outcome that must come back as it is.
struct OutcomeCase {
  const char* name;
  v1::Outcome outcome;
};

v1::Outcome Parsed(void (*fill)(v1::Outcome&)) {
  v1::Outcome outcome;
  fill(outcome);
  return outcome;
}

class OutcomeEndToEnd : public testing::Test {
 protected:
  static std::vector<OutcomeCase> Cases() {
    std::vector<OutcomeCase> cases = {
        {"nothing at all", Parsed([](v1::Outcome&) {})},
        {"an empty body", Parsed([](v1::Outcome& o) { o.set_body(""); })},
        {"a body that looks false", Parsed([](v1::Outcome& o) { o.set_body("0"); })},
        {"null", Parsed([](v1::Outcome& o) { o.set_body("null"); })},
        {"every byte", Parsed([](v1::Outcome& o) {
           std::string body;
           for (int i = 0; i < 256; ++i) body.push_back(static_cast<char>(i));
           o.set_body(body);
         })},
        {"the largest body",
         Parsed([](v1::Outcome& o) { o.set_body(std::string(256 * 1024, '\xff')); })},
        {"an omitted body", Parsed([](v1::Outcome& o) {
           o.set_body_omitted(true);
           o.set_body_size(10'000'000'000);
           o.set_body_sha256(std::string(32, '\x80'));
         })},
        {"an omitted empty body", Parsed([](v1::Outcome& o) {
           o.set_body_omitted(true);
           o.set_body_size(0);
           o.set_body_sha256(std::string(32, '\0'));
         })},
        {"repeated headers", Parsed([](v1::Outcome& o) {
           for (const char* value : {"a=1", "b=2", "a=1", "", "\xff\x01"}) {
             v1::Header* header = o.add_headers();
             header->set_name("Set-Cookie");
             header->set_value(value);
           }
           v1::Header* header = o.add_headers();
           header->set_name("set-cookie");
           header->set_value("c=3");
         })},
        {"everything", Parsed([](v1::Outcome& o) {
           o.set_status_code(201);
           o.set_content_type("application/json; charset=utf-8");
           o.set_response_id("pay-1");
           o.set_body("{}");
           v1::Header* header = o.add_headers();
           header->set_name("Location");
           header->set_value("/payments/1");
         })},
    };
    for (const int code :
         {INT32_MIN, -1, 1, 100, 200, 204, 299, 302, 404, 422, 500, 599, INT32_MAX}) {
      v1::Outcome outcome;
      outcome.set_status_code(code);
      cases.push_back({"a status code", outcome});
    }
    return cases;
  }
};

TEST_F(OutcomeEndToEnd, ComesBackIdenticalOnEveryReplay) {
  const MigratedDatabase database;
  LocalReplica one(TestSettings(database.conninfo()));
  LocalReplica two(TestSettings(database.conninfo()));
  int number = 0;
  for (const OutcomeCase& given : Cases()) {
    SCOPED_TRACE(given.name);
    const std::string key = "k" + std::to_string(++number);
    ASSERT_TRUE(one.client().Begin(BeginOf(key, "a")).response.has_started());
    v1::CompleteRequest complete = CompleteOf(key, "a");
    *complete.mutable_outcome() = given.outcome;
    const auto completed = one.client().Complete(complete);
    ASSERT_TRUE(completed.ok()) << completed.status.error_message();
    for (Client* client : {&one.client(), &two.client()}) {
      const auto replay = client->Begin(BeginOf(key, "b"));
      ASSERT_TRUE(replay.response.replay().has_outcome());
      const v1::Outcome& returned = replay.response.replay().outcome();
      EXPECT_TRUE(MessageDifferencer::Equals(returned, given.outcome));
      EXPECT_EQ(returned.has_body(), given.outcome.has_body());
    }
  }
}

TEST_F(OutcomeEndToEnd, TooLargeABodyIsRefusedAndItsDigestTaken) {
  const MigratedDatabase database;
  LocalReplica replica(TestSettings(database.conninfo()));
  Client& client = replica.client();
  ASSERT_TRUE(client.Begin(BeginOf("k", "a")).response.has_started());
  v1::CompleteRequest complete = CompleteOf("k", "a", std::string(256 * 1024 + 1, 'b'));
  const auto refused = client.Complete(complete);
  EXPECT_EQ(refused.reason, "INVALID_FIELD");
  complete.mutable_outcome()->clear_body();
  complete.mutable_outcome()->set_body_omitted(true);
  complete.mutable_outcome()->set_body_size(256 * 1024 + 1);
  complete.mutable_outcome()->set_body_sha256(std::string(32, 'd'));
  ASSERT_TRUE(client.Complete(complete).ok());
  EXPECT_TRUE(client.Begin(BeginOf("k", "b")).response.replay().outcome().body_omitted());
}

}  // namespace
}  // namespace idempotency
