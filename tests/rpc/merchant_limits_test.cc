// A merchant over its own limits: refused before anything that costs, and nobody else notices.
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rpc/error_details.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

// A base, so that it is there before the fixture.
struct StandingClock {
  FakeClock clock_;
};

// No token comes back but by Advance.
class MerchantRate : protected StandingClock, public ServiceFixture {
 protected:
  MerchantRate()
      : ServiceFixture({.max_rate = 10, .burst = 2, .max_calls_in_flight = 0}, &clock_) {}

  grpc::Status Begin(const v1::BeginRequest& request, grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    v1::BeginResponse response;
    return stub_->Begin(context == nullptr ? &own : context, request, &response);
  }
  grpc::Status BeginAnswered(const v1::BeginRequest& request) {
    v1::BeginResponse response;
    return BeginWhile(request, &response, [this] {
      FakeEngine::BeginCall call = engine_.TakeBegin();
      std::move(call.done)(StartedResult(call.item));
    });
  }
  grpc::Status LookupAnswered(const v1::LookupRequest& request) {
    grpc::ClientContext context;
    v1::LookupResponse response;
    grpc::Status status;
    std::thread caller([&] { status = stub_->Lookup(&context, request, &response); });
    std::move(engine_.TakeLookup().done)(LookupResult{});
    caller.join();
    return status;
  }
  static v1::BeginRequest BeginOfMerchant(const std::string& merchant) {
    v1::BeginRequest request = SampleBegin();
    request.set_merchant_id(merchant);
    return request;
  }
  void UseUpTheRate() {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(BeginAnswered(SampleBegin()).ok());
  }
};

TEST_F(MerchantRate, BeginPastItIsRefusedWithAHint) {
  UseUpTheRate();
  grpc::ClientContext context;
  const grpc::Status status = Begin(SampleBegin(), &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "MERCHANT_RATE_LIMITED");
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry.has_value());
  const int64_t retry_ms = retry->retry_delay().nanos() / 1'000'000;
  // A token is there after 100 ms; the rest is there to spread those who come back.
  EXPECT_EQ(retry->retry_delay().seconds(), 0);
  EXPECT_GE(retry_ms, 100);
  EXPECT_LE(retry_ms, 200);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto pushback = trailers.find(kPushbackTrailer);
  ASSERT_NE(pushback, trailers.end());
  int64_t pushback_ms = 0;
  ASSERT_TRUE(absl::SimpleAtoi(std::string(pushback->second.data(), pushback->second.size()),
                               &pushback_ms));
  EXPECT_EQ(pushback_ms, retry_ms);
  EXPECT_TRUE(engine_.IsIdle());
  EXPECT_EQ(metrics_.Value(Metric::kMerchantRateLimited), 1);
  EXPECT_EQ(metrics_.Value(Metric::kOverloaded), 0);
}

TEST_F(MerchantRate, LookupsTakeOfItToo) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ReasonOf(LookupAnswered(SampleLookup())), "RECORD_NOT_FOUND");
  }
  grpc::ClientContext context;
  v1::LookupResponse response;
  const grpc::Status status = stub_->Lookup(&context, SampleLookup(), &response);
  EXPECT_EQ(ReasonOf(status), "MERCHANT_RATE_LIMITED");
  EXPECT_EQ(ReasonOf(Begin(SampleBegin())), "MERCHANT_RATE_LIMITED");
}

TEST_F(MerchantRate, AnotherMerchantsIsItsOwn) {
  UseUpTheRate();
  EXPECT_FALSE(Begin(SampleBegin()).ok());
  EXPECT_TRUE(BeginAnswered(BeginOfMerchant("other")).ok());
}

TEST_F(MerchantRate, CompleteFailAndRenewAreNeverAskedForIt) {
  UseUpTheRate();
  const auto answer = [this] {
    OwnerResult result;
    result.verdict = OwnerVerdict::kRecordNotFound;
    std::move(engine_.TakeOwner().done)(result);
  };
  for (int i = 0; i < 5; ++i) {
    grpc::Status status;
    std::thread complete([&] {
      grpc::ClientContext context;
      v1::CompleteResponse response;
      status = stub_->Complete(&context, SampleComplete(), &response);
    });
    answer();
    complete.join();
    EXPECT_EQ(ReasonOf(status), "RECORD_NOT_FOUND");
    std::thread fail([&] {
      grpc::ClientContext context;
      v1::FailResponse response;
      status = stub_->Fail(&context, SampleFail(), &response);
    });
    answer();
    fail.join();
    EXPECT_EQ(ReasonOf(status), "RECORD_NOT_FOUND");
    std::thread renew([&] {
      grpc::ClientContext context;
      v1::RenewResponse response;
      status = stub_->Renew(&context, SampleRenew(), &response);
    });
    answer();
    renew.join();
    EXPECT_EQ(ReasonOf(status), "RECORD_NOT_FOUND");
  }
}

TEST_F(MerchantRate, TokensComeBackWithTime) {
  UseUpTheRate();
  EXPECT_FALSE(Begin(SampleBegin()).ok());
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(BeginAnswered(SampleBegin()).ok());
  EXPECT_FALSE(Begin(SampleBegin()).ok());
}

TEST_F(MerchantRate, WhatIsNoMerchantsNameIsInvalidAndTakesNoMemory) {
  for (const std::string& name :
       {std::string(), std::string(kMaxMerchantIdBytes + 1, 'a'), std::string("a b")}) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(ReasonOf(Begin(BeginOfMerchant(name))), "INVALID_FIELD");
    }
  }
  EXPECT_EQ(metrics_.Value(Metric::kMerchantBuckets), 0);
}

TEST_F(MerchantRate, ACallerWhoMayNotActForAMerchantTakesNothingOfIts) {
  authenticator_.Say(Caller{.name = "b", .merchant_id = "b"});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ReasonOf(Begin(SampleBegin())), "MERCHANT_FORBIDDEN");
  authenticator_.Say(Caller{.name = "test", .any_merchant = true});
  UseUpTheRate();
}

TEST_F(MerchantRate, IsLookedAtBeforeALargePayloadIs) {
  UseUpTheRate();
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_data(std::string(kInlinePayloadBytes + 1, 'x'));
  EXPECT_EQ(ReasonOf(Begin(request)), "MERCHANT_RATE_LIMITED");
}

class MerchantCalls : public ServiceFixture {
 protected:
  MerchantCalls() : ServiceFixture({.max_rate = 0, .burst = 0, .max_calls_in_flight = 2}) {}
};

TEST_F(MerchantCalls, OnePastThemIsRefusedUntilOneIsAnswered) {
  std::vector<std::thread> callers;
  std::vector<FakeEngine::BeginCall> held;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([this] {
      grpc::ClientContext context;
      v1::BeginResponse response;
      EXPECT_TRUE(stub_->Begin(&context, SampleBegin(), &response).ok());
    });
    held.push_back(engine_.TakeBegin());
  }
  grpc::ClientContext context;
  v1::LookupResponse response;
  const grpc::Status status = stub_->Lookup(&context, SampleLookup(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "MERCHANT_RATE_LIMITED");
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry.has_value());
  EXPECT_GT(retry->retry_delay().nanos(), 0);
  EXPECT_EQ(context.GetServerTrailingMetadata().count(kPushbackTrailer), 1u);
  EXPECT_EQ(metrics_.Value(Metric::kMerchantCallsRefused), 1);

  std::move(held[0].done)(StartedResult(held[0].item));
  callers[0].join();
  ExpectUnharmed();
  std::move(held[1].done)(StartedResult(held[1].item));
  callers[1].join();
}

// A refused call gives back what it held, whatever refused it.
TEST_F(MerchantCalls, CallsThatEndOtherwiseGiveTheirPlacesBack) {
  for (int i = 0; i < 10; ++i) {
    v1::BeginRequest invalid = SampleBegin();
    invalid.clear_operation();
    grpc::ClientContext context;
    v1::BeginResponse response;
    EXPECT_EQ(ReasonOf(stub_->Begin(&context, invalid, &response)), "INVALID_FIELD");
    EXPECT_FALSE(BeginWhile(SampleBegin(), &response, [this] {
                   std::move(engine_.TakeBegin().done)(MakeFault(Fault::kOverloaded, "full"));
                 }).ok());
  }
  ExpectUnharmed();
}

}  // namespace
}  // namespace idempotency
