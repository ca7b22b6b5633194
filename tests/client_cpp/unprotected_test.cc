// Running without the service: only where it was typed out, and only where nothing can have been
// done.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iostream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cpp/src/channel_watch.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr char kNowhere[] = "unix:/nonexistent/idempotencyd";

class UnprotectedTest : public ClientTest {
 protected:
  UnprotectedTest() {
    options_.on_unavailable = OnUnavailable::kRunUnprotected;
    options_.start_timeout = milliseconds(1000);
    client_options_.hooks.log_warning = [this](const std::string& line) { lines_.push_back(line); };
    client_options_.hooks.on_unprotected = [this](const Key& key, const Error& error) {
      EXPECT_EQ(key.idempotency_key, key_.idempotency_key);
      told_.push_back(error.kind);
      EXPECT_EQ(runs_, told_.size() - 1) << "told after the work";
    };
  }

  RunResult Run(Client& client) {
    return client.RunOnce(
        key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
        [this](const Attempt& attempt) {
          ++runs_;
          last_ = attempt;
          return Done();
        },
        options_);
  }
  RunResult RunThroughProxy() { return Run(*NewClient(client_options_)); }
  // Of a service that is not there.
  std::unique_ptr<Client> NewLonelyClient() {
    return std::make_unique<Client>(ChannelsTo(kNowhere), client_options_);
  }

  RunOptions options_;
  ClientOptions client_options_ = QuickOptions();
  size_t runs_ = 0;
  Attempt last_;
  std::vector<ErrorKind> told_;
  std::vector<std::string> lines_;
};

TEST_F(UnprotectedTest, ServiceThatWasNeverReachedLetsTheWorkRun) {
  const auto client = NewLonelyClient();
  const RunResult result = Run(*client);
  const auto unprotected = ResultAs<Unprotected>(result);
  EXPECT_EQ(unprotected.work.outcome()->body, "paid");
  EXPECT_EQ(unprotected.error.kind, ErrorKind::kUnavailable);
  EXPECT_EQ(OutcomeOf(result)->body, "paid");
  EXPECT_EQ(runs_, 1);
  EXPECT_TRUE(last_.unprotected);
  EXPECT_EQ(last_.attempt_number, 0);
  EXPECT_EQ(last_.fencing_token, 0);
  EXPECT_EQ(last_.downstream_key, "");
  EXPECT_EQ(last_.record_id, "");
  EXPECT_EQ(last_.lease_remaining(), milliseconds::max());
}

TEST_F(UnprotectedTest, EachRunIsCountedLoggedAndTold) {
  const auto client = NewLonelyClient();
  EXPECT_EQ(client->unprotected_runs(), 0);
  (void)Run(*client);
  (void)Run(*client);
  EXPECT_EQ(client->unprotected_runs(), 2);
  EXPECT_THAT(told_, testing::ElementsAre(ErrorKind::kUnavailable, ErrorKind::kUnavailable));
  ASSERT_EQ(lines_.size(), 2);
  EXPECT_THAT(lines_[0], testing::HasSubstr(key_.idempotency_key));
  EXPECT_THAT(lines_[1], testing::EndsWith("so far: 2"));
}

TEST_F(UnprotectedTest, WarningGoesToTheStandardLogWithoutItsHook) {
  client_options_.hooks = {};
  std::ostringstream log;
  std::streambuf* const before = std::clog.rdbuf(log.rdbuf());
  const Key forged = {"acme", "k\nforged line"};
  (void)NewLonelyClient()->RunOnce(
      forged, PaymentOf(), OnLeaseExpiry::kTakeOver, [](const Attempt&) { return Done(); },
      options_);
  std::clog.rdbuf(before);
  EXPECT_EQ(log.str(),
            "idempotency: warning: the service is away (no connection), so the work of merchant "
            "\"acme\", key \"k?forged line\" runs unprotected; unprotected runs so far: 1\n");
}

TEST_F(UnprotectedTest, WithoutTypingItOutNothingRuns) {
  options_.on_unavailable = OnUnavailable::kFail;
  // What the first try came to is not known, so its release is still tried when the client ends.
  client_options_.shutdown_timeout = milliseconds(50);
  const auto client = NewLonelyClient();
  EXPECT_EQ(ResultAs<Error>(Run(*client)).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(client->unprotected_runs(), 0);
  EXPECT_TRUE(told_.empty());
}

TEST_F(UnprotectedTest, ServiceThatIsThereIsUsed) {
  (void)ResultAs<Completed>(RunThroughProxy());
  EXPECT_FALSE(last_.unprotected);
}

TEST_F(UnprotectedTest, ServiceThatIsBackInTimeIsUsed) {
  proxy_.Next("Begin", RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED"));
  options_.start_timeout = std::chrono::minutes(1);
  (void)ResultAs<Completed>(RunThroughProxy());
  EXPECT_TRUE(told_.empty());
}

TEST_F(UnprotectedTest, WorkThatThrowsIsUnknown) {
  const auto unprotected = ResultAs<Unprotected>(NewLonelyClient()->RunOnce(
      key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
      [](const Attempt&) -> WorkResult { throw std::runtime_error("reset"); }, options_));
  EXPECT_EQ(unprotected.work.failure()->disposition, FailureDisposition::kUnknown);
  EXPECT_THROW(std::rethrow_exception(unprotected.exception), std::runtime_error);
}

TEST_F(UnprotectedTest, WorkIsAskedToStop) {
  const auto reason = [&](std::stop_source* source) {
    auto seen = StopReason::kNone;
    (void)ResultAs<Unprotected>(NewLonelyClient()->RunOnce(
        key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
        [&](const Attempt& attempt) {
          if (source != nullptr) source->request_stop();
          AwaitStop(attempt);
          seen = attempt.stop_reason();
          return Done();
        },
        options_));
    told_.clear();
    return seen;
  };
  options_.max_duration = milliseconds(50);
  EXPECT_EQ(reason(nullptr), StopReason::kMaxDuration);
  options_.max_duration = std::chrono::minutes(15);
  std::stop_source source;
  options_.cancel = source.get_token();
  EXPECT_EQ(reason(&source), StopReason::kCancelled);
  options_.cancel = {};
  options_.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  EXPECT_EQ(reason(nullptr), StopReason::kDeadline);
}

TEST_F(UnprotectedTest, CallerThatIsGoneRunsNothing) {
  std::stop_source source;
  options_.cancel = source.get_token();
  options_.start_timeout = std::chrono::minutes(5);
  std::thread canceller([&] { source.request_stop(); });
  EXPECT_EQ(ResultAs<Error>(Run(*NewLonelyClient())).kind, ErrorKind::kCancelled);
  canceller.join();
  options_.cancel = {};
  options_.deadline = std::chrono::steady_clock::now() + milliseconds(300);
  EXPECT_EQ(ResultAs<Error>(Run(*NewLonelyClient())).kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(runs_, 0);
}

class AwayReason : public UnprotectedTest, public testing::WithParamInterface<const char*> {};

TEST_P(AwayReason, ToTheEndLetsTheWorkRun) {
  proxy_.Always("Begin", RefusedBecause(StatusCode::UNAVAILABLE, GetParam()));
  const auto unprotected = ResultAs<Unprotected>(RunThroughProxy());
  EXPECT_EQ(unprotected.error.reason, GetParam());
  EXPECT_THAT(lines_.at(0), testing::HasSubstr(GetParam()));
  EXPECT_GE(proxy_.Count("Begin"), 2);
  // The service has said that there is nothing to take back.
  EXPECT_EQ(proxy_.Count("Fail"), 0);
}

INSTANTIATE_TEST_SUITE_P(Reasons, AwayReason,
                         testing::Values("STORE_UNAVAILABLE", "OVERLOADED", "DRAINING"),
                         [](const auto& each) { return std::string(each.param); });

// One try that may have had an effect, or was answered otherwise, among tries that had none.
struct OneTry {
  const char* name;
  CallFault fault;
};

class UncertainTry : public UnprotectedTest, public testing::WithParamInterface<OneTry> {
 protected:
  UncertainTry() {
    client_options_.rpc_timeout = milliseconds(500);
    options_.start_timeout = milliseconds(1500);
  }
  void ExpectNoRun() {
    EXPECT_FALSE(ResultAs<Error>(RunThroughProxy()).work.has_value());
    EXPECT_EQ(runs_, 0);
    EXPECT_TRUE(told_.empty());
    EXPECT_TRUE(lines_.empty());
  }

  const CallFault away_ = RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED");
};

TEST_P(UncertainTry, AtFirstForbidsTheRun) {
  proxy_.Next("Begin", GetParam().fault);
  proxy_.Always("Begin", away_);
  ExpectNoRun();
}

TEST_P(UncertainTry, LaterForbidsTheRun) {
  proxy_.Next("Begin", away_);
  proxy_.Next("Begin", GetParam().fault);
  proxy_.Always("Begin", away_);
  ExpectNoRun();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, UncertainTry,
    testing::Values(
        OneTry{"AnswerLost", AnswerLost()}, OneTry{"Hanging", Hanging()},
        OneTry{"HangingAfter", HangingAfter()}, OneTry{"NoReason", Refused()},
        OneTry{"CommitUnknown", RefusedBecause(StatusCode::UNAVAILABLE, "COMMIT_UNKNOWN")},
        OneTry{"Schema", RefusedBecause(StatusCode::UNAVAILABLE, "SCHEMA_INCOMPATIBLE")},
        OneTry{"RateLimited",
               RefusedBecause(StatusCode::RESOURCE_EXHAUSTED, "MERCHANT_RATE_LIMITED", 1)},
        OneTry{"Credentials", RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID")},
        OneTry{"OtherCode", RefusedBecause(StatusCode::INTERNAL, "OVERLOADED")},
        // It ends the tries before their time.
        OneTry{"NegativePushback",
               WithPushback(RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED"), "-1")}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(UnprotectedTest, SomebodyWhoWasAtItForbidsTheRun) {
  v1::BeginResponse busy;
  busy.mutable_in_progress()->mutable_retry_after()->set_nanos(20'000'000);
  proxy_.Next("Begin", Answering(busy.SerializeAsString()));
  proxy_.Always("Begin", RefusedBecause(StatusCode::UNAVAILABLE, "OVERLOADED"));
  options_.wait_timeout = milliseconds(300);
  EXPECT_EQ(ResultAs<Error>(RunThroughProxy()).reason, "OVERLOADED");
  EXPECT_EQ(runs_, 0);
}

// Something that takes connections and says nothing: the channel never knows whether it has one.
class SilentListener {
 public:
  SilentListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd_, generic, size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, generic, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentListener() { close(fd_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_;
  int port_ = 0;
};

// Where no try was made, none was proven to be without effect.
TEST_F(UnprotectedTest, ServiceThatWasNeverTriedRunsNothing) {
  const SilentListener silent;
  grpc::ChannelArguments patient;
  patient.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 60'000);
  const auto channel =
      grpc::CreateCustomChannel(silent.address(), grpc::InsecureChannelCredentials(), patient);
  options_.start_timeout = milliseconds(200);
  Client client({channel, channel}, client_options_);
  EXPECT_EQ(ResultAs<Error>(Run(client)).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(told_.empty());
}

TEST(DownWatch, SeesAConnectionThatCameAndWent) {
  const std::string path = absl::StrCat(testing::TempDir(), "/down-watch-", getpid());
  const auto channel = ChannelsTo(absl::StrCat("unix:", path)).calls;
  const auto is_down = [&] {
    (void)channel->GetState(/*try_to_connect=*/true);
    return IsDown(channel.get());
  };
  ASSERT_TRUE(Eventually(is_down));
  {
    DownWatch quiet(channel.get());
    EXPECT_TRUE(quiet.WasDownAllTheTime());
  }
  DownWatch watch(channel.get());
  {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("unix:", path), grpc::InsecureServerCredentials());
    const auto server = builder.BuildAndStart();
    ASSERT_TRUE(Eventually([&] { return channel->GetState(true) == GRPC_CHANNEL_READY; }));
    server->Shutdown(std::chrono::system_clock::now());
  }
  ASSERT_TRUE(Eventually(is_down));
  EXPECT_FALSE(watch.WasDownAllTheTime());
  unlink(path.c_str());
}

TEST(AwaitSettled, KnowsAChannelThatCannotConnect) {
  const auto channel = ChannelsTo(kNowhere).calls;
  EXPECT_TRUE(AwaitSettled(channel.get(), Caller(), After(BootClock::now(), milliseconds(60'000))));
  EXPECT_TRUE(IsDown(channel.get()));
  EXPECT_FALSE(IsDown(nullptr));
}

}  // namespace
}  // namespace idempotency::client
