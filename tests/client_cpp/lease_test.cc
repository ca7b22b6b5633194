// What happens to the lease while the work runs.
#include <mutex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"
#include "tests/util/eventually.h"

namespace idempotency::client {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;

class LeaseTest : public ClientTest {
 protected:
  RunResult Run(const Work& fn, const RunOptions& options) {
    return client_->RunOnce(key_, PaymentOf(), OnLeaseExpiry::kTakeOver, fn, options);
  }
  static RunOptions LeaseOf(milliseconds lease) {
    RunOptions options;
    options.lease_duration = lease;
    return options;
  }

  const std::unique_ptr<Client> client_ = NewClient();
};

// Leases here are long, so that a machine which stalls for some seconds renews in time, and short
// only where they are to run out.
TEST_F(LeaseTest, WorkLongerThanItsLeaseKeepsIt) {
  const auto completed = ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        // The first three thirds are the lease that Begin gave.
        EXPECT_TRUE(Eventually([&] { return proxy_.Count("Renew") >= 4; }));
        EXPECT_FALSE(attempt.stop.stop_requested());
        EXPECT_GT(attempt.lease_remaining(), milliseconds(0));
        EXPECT_LE(attempt.lease_remaining(), milliseconds(12'200));
        (void)ResultAs<InProgress>(RunElsewhere([](const Attempt&) { return Done(); }));
        return Done();
      },
      LeaseOf(milliseconds(12'200))));
  EXPECT_EQ(completed.attempt_number, 1);
  const auto renews = proxy_.RequestsAs<v1::RenewRequest>("Renew");
  EXPECT_EQ(renews[0].lease_duration().seconds(), 12);
  EXPECT_EQ(renews[0].lease_duration().nanos(), 200'000'000);
  EXPECT_EQ(renews[0].attempt_id(),
            proxy_.RequestsAs<v1::BeginRequest>("Begin").at(0).attempt_id());
  EXPECT_EQ(Lookup().unknown_attempts(), 0);
}

TEST_F(LeaseTest, RenewThatFailsIsRepeatedBeforeTheLeaseEnds) {
  proxy_.Next("Renew", Refused());
  proxy_.Next("Renew", AnswerLost());
  proxy_.Next("Renew", Answering("\xFF\xFF\xFF"));
  proxy_.Next("Renew", RefusedBecause(StatusCode::UNAUTHENTICATED, "CREDENTIALS_INVALID"));
  (void)ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        EXPECT_TRUE(Eventually([&] { return proxy_.Count("Renew") >= 6; }));
        EXPECT_FALSE(attempt.stop.stop_requested());
        return Done();
      },
      LeaseOf(milliseconds(12'000))));
}

TEST_F(LeaseTest, NegativePushbackOnARenewPutsTheNextOneAThirdLater) {
  proxy_.Next("Renew", WithPushback(Refused(), "-1"));
  proxy_.Next("Renew", Hanging());
  (void)ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        EXPECT_TRUE(Eventually([&] { return proxy_.Count("Renew") >= 2; }));
        // None was accepted, and two thirds have passed; however long this has taken.
        EXPECT_LE(attempt.lease_remaining(), milliseconds(2100));
        return Done();
      },
      LeaseOf(milliseconds(6000))));
}

TEST_F(LeaseTest, WorkIsAskedToStopWhenTheLeaseCannotBeRenewed) {
  proxy_.Always("Renew", Refused());
  const auto completed = ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        EXPECT_EQ(attempt.stop_reason(), StopReason::kNone);
        AwaitStop(attempt);
        EXPECT_EQ(attempt.stop_reason(), StopReason::kLeaseLost);
        EXPECT_EQ(attempt.lease_remaining(), milliseconds(0));
        return Done();
      },
      LeaseOf(milliseconds(3000))));
  // Nobody had taken over, so it is recorded all the same.
  EXPECT_EQ(completed.attempt_number, 1);
  EXPECT_GE(proxy_.Count("Renew"), 2);
}

TEST_F(LeaseTest, WorkIsAskedToStopAtOnceWhenTheServiceSaysThatTheLeaseIsLost) {
  proxy_.Always("Renew", RefusedBecause(StatusCode::ABORTED, "LEASE_LOST"));
  (void)Run(
      [&](const Attempt& attempt) {
        AwaitStop(attempt);
        EXPECT_EQ(attempt.stop_reason(), StopReason::kLeaseLost);
        EXPECT_GT(attempt.lease_remaining(), milliseconds(0));
        return Done();
      },
      // A third of it is far below its end, also on a busy machine.
      LeaseOf(milliseconds(9000)));
  EXPECT_EQ(proxy_.Count("Renew"), 1);
}

TEST_F(LeaseTest, LateOutcomeAfterATakeoverIsLeaseLostAndCarriesIt) {
  std::mutex mu;
  int reported = 0;
  ClientOptions options = QuickOptions();
  options.hooks.on_outcome_not_recorded = [&](const Key&, const WorkResult&, const Error&) {
    const std::lock_guard lock(mu);
    ++reported;
  };
  const auto client = NewClient(options);
  proxy_.Always("Renew", Refused());
  const auto error = ResultAs<Error>(client->RunOnce(
      key_, PaymentOf(), OnLeaseExpiry::kTakeOver,
      [&](const Attempt& attempt) {
        AwaitStop(attempt);
        RunResult second;
        EXPECT_TRUE(Eventually([&] {
          second = RunElsewhere([&](const Attempt& newer) {
            EXPECT_EQ(newer.unknown_attempts, 1);
            EXPECT_GT(newer.fencing_token, attempt.fencing_token);
            EXPECT_FALSE(newer.previous_attempt->failure.has_value());
            return Done("by the second");
          });
          return std::holds_alternative<Completed>(second);
        }));
        return Done("by the first");
      },
      LeaseOf(milliseconds(3000))));
  EXPECT_EQ(error.kind, ErrorKind::kLeaseLost);
  EXPECT_EQ(error.work->outcome()->body, "by the first");
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(Lookup().outcome().body(), "by the second");
  EXPECT_EQ(Lookup().refused_outcome().response_id(), "pay-1");
}

TEST_F(LeaseTest, WorkIsAskedToStopAfterItsLongestDuration) {
  RunOptions options;
  options.max_duration = milliseconds(200);
  (void)ResultAs<Completed>(Run(
      [&](const Attempt& attempt) {
        AwaitStop(attempt);
        EXPECT_EQ(attempt.stop_reason(), StopReason::kMaxDuration);
        EXPECT_GT(attempt.lease_remaining(), milliseconds(0));
        return Done();
      },
      options));
}

TEST_F(LeaseTest, HangingWorkLosesItsLeaseAfterItsLongestDuration) {
  RunOptions options = LeaseOf(milliseconds(3000));
  options.max_duration = milliseconds(1500);
  RunResult second;
  const auto error = ResultAs<Error>(Run(
      [&](const Attempt&) {
        EXPECT_TRUE(Eventually([&] {
          second = RunElsewhere([](const Attempt&) { return Done(); });
          return std::holds_alternative<Completed>(second);
        }));
        return Done();
      },
      options));
  EXPECT_EQ(error.kind, ErrorKind::kLeaseLost);
}

TEST_F(LeaseTest, NothingIsRenewedAfterTheWork) {
  (void)ResultAs<Completed>(
      Run([](const Attempt&) { return Done(); }, LeaseOf(milliseconds(12'000))));
  // A second run that is longer than a third of that lease would have shown a renewal of the first.
  const Key other = NewKey();
  (void)ResultAs<Completed>(client_->RunOnce(
      other, PaymentOf(), OnLeaseExpiry::kTakeOver,
      [&](const Attempt&) {
        EXPECT_TRUE(Eventually([&] { return proxy_.Count("Renew") >= 3; }));
        return Done();
      },
      LeaseOf(milliseconds(6000))));
  for (const auto& renew : proxy_.RequestsAs<v1::RenewRequest>("Renew")) {
    EXPECT_EQ(renew.idempotency_key(), other.idempotency_key);
  }
}

TEST_F(LeaseTest, AttemptThatIsKeptAfterItsRunIsHarmless) {
  Attempt kept;
  (void)Run(
      [&](const Attempt& attempt) {
        kept = attempt;
        return Done();
      },
      {});
  EXPECT_FALSE(kept.stop.stop_requested());
  EXPECT_EQ(kept.stop_reason(), StopReason::kNone);
  EXPECT_GE(kept.lease_remaining(), milliseconds(0));
}

}  // namespace
}  // namespace idempotency::client
