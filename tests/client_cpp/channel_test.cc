// The two channels, and what waits do on theirs.
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

class ChannelTest : public ClientTest {};

TEST_F(ChannelTest, WaitsRideOnAConnectionOfTheirOwn) {
  const auto client = NewClient();
  RunOptions waiting;
  waiting.wait_timeout = std::chrono::seconds(1);
  const auto run = [&](const RunOptions& options) {
    (void)ResultAs<Completed>(client->RunOnce(
        NewKey(), PaymentOf(), OnLeaseExpiry::kTakeOver, [](const Attempt&) { return Done(); },
        options));
  };
  run({});
  run({});
  const auto calls = proxy_.Peers("Begin");
  EXPECT_EQ(calls.size(), 1);
  run(waiting);
  EXPECT_EQ(proxy_.Peers("Begin").size(), 2);
  // Its Complete is not held up by waits.
  EXPECT_EQ(proxy_.Peers("Complete"), calls);
}

TEST_F(ChannelTest, WaitThatTheServiceEndsEarlyGoesOn) {
  v1::BeginResponse busy;
  busy.mutable_in_progress()->mutable_retry_after()->set_nanos(20'000'000);
  proxy_.Next("Begin", Answering(busy.SerializeAsString()));
  proxy_.Next("Begin", Answering(busy.SerializeAsString()));
  (void)RunElsewhere([](const Attempt&) { return Done(); });
  const auto client = NewClient();
  RunOptions waiting;
  waiting.wait_timeout = std::chrono::seconds(30);
  (void)ResultAs<Replayed>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, MustNotRun, waiting));
  const auto begins = proxy_.RequestsAs<v1::BeginRequest>("Begin");
  ASSERT_EQ(begins.size(), 3);
  EXPECT_EQ(begins[0].attempt_id(), begins[2].attempt_id());
}

TEST_F(ChannelTest, CallsGoRoundAllAddresses) {
  FaultProxy other(SharedService().address(0));
  Client client(ChannelsTo(absl::StrCat("ipv4:", proxy_.address(), ",", other.address())),
                QuickOptions());
  EXPECT_TRUE(Eventually([&] {
    (void)client.RunOnce(NewKey(), PaymentOf(), OnLeaseExpiry::kTakeOver,
                         [](const Attempt&) { return Done(); });
    // Begin and Complete take turns, so that each address may get only one of them.
    return proxy_.Count("Begin") + proxy_.Count("Complete") > 0 &&
           other.Count("Begin") + other.Count("Complete") > 0;
  }));
}

TEST_F(ChannelTest, KeepaliveFasterThanTheServiceAllowsIsSlowedDown) {
  ChannelOptions options;
  options.target = proxy_.address();
  options.credentials = grpc::InsecureChannelCredentials();
  options.keepalive_interval = std::chrono::milliseconds(1);
  Client client(MakeChannels(options), QuickOptions());
  // With a ping a millisecond the server would have cut the connection by now.
  for (int i = 0; i < 20; ++i) {
    (void)ResultAs<Completed>(client.RunOnce(NewKey(), PaymentOf(), OnLeaseExpiry::kTakeOver,
                                             [](const Attempt&) { return Done(); }));
  }
  EXPECT_EQ(proxy_.Peers("Begin").size(), 1);
}

// A Begin on its way through one replica may be overtaken by its release through another.
TEST_F(ChannelTest, ReleaseThatComesBeforeItsBeginIsTriedAgain) {
  proxy_.Next("Begin", HangingAfter());
  proxy_.Next("Fail", RefusedBecause(grpc::StatusCode::NOT_FOUND, "RECORD_NOT_FOUND"));
  std::stop_source source;
  const auto client = NewClient();
  std::thread canceller([&] {
    EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_IN_PROGRESS); }));
    source.request_stop();
  });
  RunOptions options;
  options.cancel = source.get_token();
  (void)ResultAs<Error>(
      client->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kHold, MustNotRun, options));
  canceller.join();
  EXPECT_TRUE(Eventually([&] { return IsState(v1::RECORD_STATE_RELEASED); }));
  EXPECT_EQ(proxy_.Count("Fail"), 2);
}

}  // namespace
}  // namespace idempotency::client
