// A caller's trace, over real gRPC: into the log lines of its call, and back in the answer.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rpc/error_details.h"
#include "tests/rpc/request_samples.h"
#include "tests/rpc/service_fixture.h"

namespace idempotency {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kHeader[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kField[] = "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"";

class TraceTest : public ServiceFixture {
 protected:
  // Begins with this metadata while `answer` plays the engine. Returns every traceparent that came
  // back, wherever.
  template <typename AnswerIt>
  std::vector<std::string> Begin(const std::vector<std::string>& headers, const AnswerIt& answer) {
    grpc::ClientContext context;
    for (const std::string& header : headers) context.AddMetadata("traceparent", header);
    v1::BeginResponse response;
    status_ = BeginWhile(SampleBegin(), &response, answer, &context);
    return Returned(context);
  }
  static std::vector<std::string> Returned(const grpc::ClientContext& context) {
    std::vector<std::string> returned;
    for (const auto* metadata :
         {&context.GetServerInitialMetadata(), &context.GetServerTrailingMetadata()}) {
      const auto [first, last] = metadata->equal_range("traceparent");
      for (auto it = first; it != last; ++it) {
        returned.emplace_back(it->second.data(), it->second.size());
      }
    }
    return returned;
  }
  void Start() {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    trace_ = std::string(call.terms.trace.text());
    std::move(call.done)(StartedResult(call.item));
  }
  void FailWith(Fault fault) {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::move(call.done)(MakeFault(fault, "for the log"));
  }
  // The lines of that event.
  std::vector<std::string> Lines(const std::string& event) {
    std::vector<std::string> lines;
    for (const absl::string_view line : absl::StrSplit(StopLog(), '\n')) {
      if (absl::StrContains(line, absl::StrCat("\"event\":\"", event, "\""))) {
        lines.emplace_back(line);
      }
    }
    return lines;
  }

  grpc::Status status_;
  std::string trace_;
};

TEST_F(TraceTest, ComesBackWithAnAnswerAndGoesToTheEngine) {
  EXPECT_THAT(Begin({kHeader}, [&] { Start(); }), ElementsAre(kHeader));
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(trace_, "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_F(TraceTest, ComesBackWithARefusal) {
  EXPECT_THAT(Begin({kHeader}, [&] { FailWith(Fault::kOverloaded); }), ElementsAre(kHeader));
  EXPECT_EQ(ReasonOf(status_), "OVERLOADED");
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kHeader);
  v1::CompleteResponse response;
  EXPECT_EQ(ReasonOf(stub_->Complete(&context, v1::CompleteRequest(), &response)), "INVALID_FIELD");
  EXPECT_THAT(Returned(context), ElementsAre(kHeader));
}

TEST_F(TraceTest, ComesBackToACallerWithoutCredentials) {
  authenticator_.Say(CredentialFault::kMissing);
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kHeader);
  v1::LookupResponse response;
  EXPECT_EQ(ReasonOf(stub_->Lookup(&context, v1::LookupRequest(), &response)),
            "CREDENTIALS_MISSING");
  EXPECT_THAT(Returned(context), ElementsAre(kHeader));
}

TEST_F(TraceTest, NoneIsMadeUp) {
  EXPECT_THAT(Begin({}, [&] { Start(); }), IsEmpty());
  EXPECT_EQ(trace_, "");
  EXPECT_THAT(Lines("rpc"), Each(Not(HasSubstr("trace_id"))));
}

TEST_F(TraceTest, OneThatIsNotValidIsAsNone) {
  EXPECT_THAT(Begin({"00-xyz"}, [&] { Start(); }), IsEmpty());
  EXPECT_EQ(trace_, "");
}

TEST_F(TraceTest, OneThatCameTwiceIsAsNone) {
  EXPECT_THAT(Begin({kHeader, kHeader}, [&] { Start(); }), IsEmpty());
  EXPECT_EQ(trace_, "");
}

TEST_F(TraceTest, StandsInTheLineOfTheCall) {
  Begin({kHeader}, [&] { Start(); });
  EXPECT_THAT(Lines("rpc"), ElementsAre(HasSubstr(kField)));
}

TEST_F(TraceTest, StandsInTheLineOfAReplay) {
  Begin({kHeader}, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::move(call.done)(ReplayResult(call.item, Outcome{}));
  });
  EXPECT_THAT(Lines("replay"), ElementsAre(HasSubstr(kField)));
}

TEST_F(TraceTest, StandsInTheLineOfAKeyConflict) {
  Begin({kHeader}, [&] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    BeginResult result = StartedResult(call.item);
    result.verdict = BeginVerdict::kKeyReused;
    std::move(call.done)(std::move(result));
  });
  EXPECT_EQ(ReasonOf(status_), "KEY_REUSED");
  EXPECT_THAT(Lines("key_reused"), ElementsAre(HasSubstr(kField)));
}

TEST_F(TraceTest, StandsBesideTheRequestIdOfAFault) {
  Begin({kHeader}, [&] { FailWith(Fault::kInternal); });
  EXPECT_EQ(ReasonOf(status_), "INTERNAL");
  EXPECT_THAT(Lines("internal_error"),
              ElementsAre(testing::AllOf(HasSubstr(kField), HasSubstr("\"request_id\":\""))));
}

TEST_F(TraceTest, CallsAreCountedWithTheirCodes) {
  Begin({}, [&] { Start(); });
  Begin({}, [&] { FailWith(Fault::kOverloaded); });
  EXPECT_EQ(metrics_.rpc().StartedCount(RpcMethod::kBegin), 2u);
  EXPECT_EQ(metrics_.rpc().HandledCount(RpcMethod::kBegin, grpc::StatusCode::OK), 1u);
  EXPECT_EQ(metrics_.rpc().HandledCount(RpcMethod::kBegin, grpc::StatusCode::UNAVAILABLE), 1u);
  EXPECT_EQ(metrics_.rpc().Took(RpcMethod::kBegin).Count(), 2u);
  EXPECT_EQ(metrics_.rpc().StartedCount(RpcMethod::kComplete), 0u);
}

TEST_F(TraceTest, EveryMethodIsCountedAsItself) {
  const auto refuse = [&](auto call) { EXPECT_EQ(ReasonOf(call()), "INVALID_FIELD"); };
  grpc::ClientContext contexts[4];
  refuse([&] {
    v1::CompleteResponse response;
    return stub_->Complete(&contexts[0], v1::CompleteRequest(), &response);
  });
  refuse([&] {
    v1::FailResponse response;
    return stub_->Fail(&contexts[1], v1::FailRequest(), &response);
  });
  refuse([&] {
    v1::RenewResponse response;
    return stub_->Renew(&contexts[2], v1::RenewRequest(), &response);
  });
  refuse([&] {
    v1::LookupResponse response;
    return stub_->Lookup(&contexts[3], v1::LookupRequest(), &response);
  });
  for (const RpcMethod method :
       {RpcMethod::kComplete, RpcMethod::kFail, RpcMethod::kRenew, RpcMethod::kLookup}) {
    EXPECT_EQ(metrics_.rpc().StartedCount(method), 1u) << RpcMethodName(method);
    EXPECT_EQ(metrics_.rpc().HandledCount(method, grpc::StatusCode::INVALID_ARGUMENT), 1u)
        << RpcMethodName(method);
  }
  EXPECT_EQ(metrics_.rpc().StartedCount(RpcMethod::kBegin), 0u);
}

}  // namespace
}  // namespace idempotency
