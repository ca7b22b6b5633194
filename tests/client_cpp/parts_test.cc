// The client's parts that need no service.
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "client/cpp/src/attempt_id.h"
#include "client/cpp/src/backoff.h"
#include "client/cpp/src/boot_clock.h"
#include "client/cpp/src/call_failure.h"
#include "client/cpp/src/calls_in_flight.h"
#include "client/cpp/src/convert.h"
#include "client/cpp/src/sha256.h"
#include "client/cpp/src/timers.h"
#include "client/cpp/src/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/v1/error.pb.h"
#include "openssl/sha.h"

namespace idempotency::client {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(Sha256, IsTheSystemLibrarysForEveryLengthAroundABlock) {
  std::string data;
  for (int i = 0; i < 300; ++i) {
    unsigned char expected[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), expected);
    ASSERT_EQ(Sha256(data), std::string(reinterpret_cast<char*>(expected), sizeof expected)) << i;
    data.push_back(static_cast<char>(i * 7));
  }
}

TEST(AttemptIdOfTheClient, IsAlwaysAnother) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(*NewAttemptId());
  EXPECT_EQ(ids.size(), 1000);
}

TEST(CleanText, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(CleanText("Zürich €5 \xF0\x9F\x92\xB8", 100), "Zürich €5 \xF0\x9F\x92\xB8");
  EXPECT_EQ(CleanText("a\xC3", 100), "a?");
  EXPECT_EQ(CleanText("\xC0\x80", 100), "??");            // an overlong NUL
  EXPECT_EQ(CleanText("\xED\xA0\x80", 100), "???");       // a surrogate
  EXPECT_EQ(CleanText("\xF4\x90\x80\x80", 100), "????");  // past U+10FFFF
  EXPECT_EQ(CleanText("\xE0\x9F\xBF", 100), "???");       // overlong
  EXPECT_EQ(CleanText("\xF0\x8F\xBF\xBF", 100), "????");  // overlong
}

TEST(CleanText, CutsBetweenCharacters) {
  EXPECT_EQ(CleanText("abc", 3), "abc");
  EXPECT_EQ(CleanText("abcd", 3), "abc");
  EXPECT_EQ(CleanText("ab€", 5), "ab€");
  EXPECT_EQ(CleanText("ab€", 4), "ab");
  EXPECT_EQ(CleanText("", 0), "");
}

TEST(BackoffOfTheClient, DoublesUpToItsLongestWithJitter) {
  Backoff backoff(milliseconds(150));
  for (const int expected : {50, 100, 150, 150}) {
    const auto wait = backoff.Next(std::nullopt);
    EXPECT_GE(wait, milliseconds(expected / 2));
    EXPECT_LE(wait, milliseconds(expected));
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(std::nullopt), milliseconds(50));
}

TEST(BackoffOfTheClient, WaitsAtLeastAsLongAsItWasAskedButAMinuteAtMost) {
  Backoff backoff;
  for (int i = 0; i < 100; ++i) {
    const auto wait = backoff.Next(milliseconds(1000));
    EXPECT_GE(wait, milliseconds(1000));
    EXPECT_LE(wait, milliseconds(1200));
  }
  EXPECT_LE(backoff.Next(hours(24)), seconds(72));
  EXPECT_EQ(backoff.Next(milliseconds(0)), milliseconds(0));
}

TEST(BootClock, RunsForwardAndDoesNotOverflow) {
  const auto now = BootClock::now();
  EXPECT_LE(now, BootClock::now());
  EXPECT_EQ(After(now, milliseconds(-5)), now);
  EXPECT_EQ(After(now, milliseconds::min()), now);
  EXPECT_EQ(After(now, milliseconds::max()), now + hours(24 * 365));
  EXPECT_EQ(After(now, nanoseconds::max()), now + hours(24 * 365));
  EXPECT_EQ(After(now, milliseconds(7)), now + milliseconds(7));
  EXPECT_EQ(Until(now - seconds(1)), milliseconds(0));
  EXPECT_GT(Until(BootClock::now() + hours(1)), milliseconds(3'000'000));
}

TEST(TimersOfTheClient, RunInTheOrderOfTheirTimesAndNotWhenCancelled) {
  std::mutex mu;
  std::condition_variable changed;
  std::vector<int> ran;
  Timers timers;
  const auto task = [&](int number) {
    return [&, number] {
      const std::lock_guard lock(mu);
      ran.push_back(number);
      changed.notify_all();
    };
  };
  const auto soon = BootClock::now() + milliseconds(100);
  const auto cancelled = timers.At(soon, task(0));
  timers.At(soon + milliseconds(2), task(3));
  timers.At(soon, task(2));
  timers.At(BootClock::time_point(), task(1));
  timers.Cancel(cancelled);
  timers.Cancel(cancelled);
  std::unique_lock lock(mu);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes(1), [&] { return ran.size() == 3; }));
  EXPECT_THAT(ran, testing::ElementsAre(1, 2, 3));
}

TEST(TimersOfTheClient, RunNothingAfterStop) {
  Timers timers;
  timers.At(BootClock::now() + hours(1), [] { ADD_FAILURE(); });
  timers.Stop();
  timers.At(BootClock::now(), [] { ADD_FAILURE(); });
  timers.Stop();
}

TEST(CallsInFlight, EndWithTheLastCopyOfTheirCallbacks) {
  const auto calls = std::make_shared<CallsInFlight>();
  EXPECT_TRUE(calls->AwaitNone(milliseconds(0)));
  std::function<void(grpc::Status)> first = CountedCallback(calls, [](const grpc::Status&) {});
  std::function<void(grpc::Status)> second = CountedCallback(calls, [](const grpc::Status&) {});
  std::function<void(grpc::Status)> copy = first;
  first = nullptr;
  second(grpc::Status::OK);  // having run is not the end
  EXPECT_FALSE(calls->AwaitNone(milliseconds(0)));
  copy = nullptr;
  EXPECT_FALSE(calls->AwaitNone(milliseconds(0)));
  second = nullptr;
  EXPECT_TRUE(calls->AwaitNone(milliseconds(0)));
}

TEST(CallsInFlight, WakeWhoeverWaitsForTheLast) {
  const auto calls = std::make_shared<CallsInFlight>();
  auto call = std::make_unique<CallsInFlight::Call>(calls);
  std::thread ending([&] { call.reset(); });
  EXPECT_TRUE(calls->AwaitNone(std::chrono::minutes(1)));
  ending.join();
}

// Whoever waits for the call may let go of the channel then: nothing may still hold it.
TEST(CallsInFlight, EndAfterWhatTheirCallbacksOwn) {
  const auto calls = std::make_shared<CallsInFlight>();
  bool was_counted = false;
  auto owned = std::shared_ptr<void>(
      nullptr, [&](void*) { was_counted = !calls->AwaitNone(milliseconds(0)); });
  std::function<void(grpc::Status)> callback =
      CountedCallback(calls, [kept = std::move(owned)](const grpc::Status&) {});
  callback = nullptr;
  EXPECT_TRUE(was_counted);
}

// Bytes of a google.rpc.Status made by hand, so that this test does not share our copy's field
// numbers: details (3) with type_url (1) and value (2).
std::string Details(const std::string& type, const std::string& value) {
  const auto field = [](char number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
           bytes;
  };
  return field(3, field(1, "type.googleapis.com/google.rpc." + type) + field(2, value));
}

CallFailure Failed(grpc::StatusCode code, const std::string& details) {
  const grpc::ClientContext context;
  return FailureOf(grpc::Status(code, "words", details), context);
}

TEST(CallFailure, ReadsGooglesDetails) {
  const std::string info = "\x0A\x0AKEY_REUSED\x12\x0Eidempotency.v1\x1A\x08\x0A\x02id\x12\x02r1";
  const auto failure =
      Failed(grpc::StatusCode::FAILED_PRECONDITION, Details("ErrorInfo", info) +
                                                        Details("RetryInfo", "\x0A\x02\x08\x02") +
                                                        Details("BadRequest",
                                                                "\x0A\x06\x0A\x01"
                                                                "f\x12\x01"
                                                                "d") +
                                                        Details("Help", "\xFF"));
  EXPECT_EQ(failure.error.kind, ErrorKind::kKeyReused);
  EXPECT_EQ(failure.error.reason, "KEY_REUSED");
  EXPECT_EQ(failure.error.message, "words");
  EXPECT_EQ(failure.error.metadata.at("id"), "r1");
  EXPECT_EQ(failure.retry_after, seconds(2));
  ASSERT_EQ(failure.error.violations.size(), 1);
  EXPECT_EQ(failure.error.violations[0].field, "f");
  EXPECT_EQ(failure.error.violations[0].description, "d");
  EXPECT_FALSE(failure.may_have_effect);
}

TEST(CallFailure, IgnoresForeignAndBrokenDetails) {
  const std::string foreign = "\x0A\x0AKEY_REUSED\x12\x05proxy";
  for (const std::string& details : {Details("ErrorInfo", foreign), std::string("\xFF\xFF")}) {
    const auto failure = Failed(grpc::StatusCode::UNAVAILABLE, details);
    EXPECT_EQ(failure.error.kind, ErrorKind::kUnavailable);
    EXPECT_EQ(failure.error.reason, "");
    EXPECT_TRUE(failure.may_have_effect);
  }
}

TEST(CallFailure, JudgesAnUnknownReasonByItsCode) {
  const auto failure = Failed(grpc::StatusCode::PERMISSION_DENIED,
                              Details("ErrorInfo", "\x0A\x03NEW\x12\x0Eidempotency.v1"));
  EXPECT_EQ(failure.error.kind, ErrorKind::kPermissionDenied);
  EXPECT_EQ(failure.error.reason, "NEW");
  EXPECT_TRUE(failure.may_have_effect);
}

TEST(CallFailure, KnowsWhichReasonsSayThatNothingWasDone) {
  const auto* const reasons = v1::ErrorReason_descriptor();
  for (int i = 0; i < reasons->value_count(); ++i) {
    const std::string prefix = "ERROR_REASON_";
    const std::string reason = reasons->value(i)->name().substr(prefix.size());
    const auto failure =
        Failed(grpc::StatusCode::UNAVAILABLE,
               Details("ErrorInfo", "\x0A" + std::string(1, static_cast<char>(reason.size())) +
                                        reason + "\x12\x0Eidempotency.v1"));
    EXPECT_EQ(failure.error.reason, reason);
    EXPECT_EQ(failure.may_have_effect,
              reason == "COMMIT_UNKNOWN" || reason == "INTERNAL" || reason == "UNSPECIFIED")
        << reason;
  }
}

CallFailure PushedBack(const std::vector<std::string>& values) {
  std::multimap<grpc::string_ref, grpc::string_ref> trailers;
  for (const std::string& value : values) trailers.emplace("grpc-retry-pushback-ms", value);
  CallFailure failure;
  ReadPushback(trailers, &failure);
  return failure;
}

TEST(Pushback, IsAWholeNumberOfMilliseconds) {
  EXPECT_EQ(PushedBack({"0"}).retry_after, milliseconds(0));
  EXPECT_EQ(PushedBack({"0150"}).retry_after, milliseconds(150));
  EXPECT_EQ(PushedBack({"2147483647"}).retry_after, milliseconds(2'147'483'647));
  EXPECT_FALSE(PushedBack({"2147483647"}).must_not_retry);
  EXPECT_FALSE(PushedBack({}).must_not_retry);
  EXPECT_FALSE(PushedBack({}).retry_after.has_value());
}

TEST(Pushback, ThatIsAnythingElseSaysNotToRepeat) {
  for (const char* text : {"-1", "-0", "+1", "", " 1", "1 ", "1.5", "1e3", "0x10", "soon",
                           "2147483648", "18446744073709551616"}) {
    EXPECT_TRUE(PushedBack({text}).must_not_retry) << text;
    EXPECT_FALSE(PushedBack({text}).retry_after.has_value()) << text;
  }
  EXPECT_TRUE(PushedBack({"1", "2"}).must_not_retry);
}

TEST(FromProto, TakesALeaseExpiryActionThatItDoesNotKnowForTheStrictOne) {
  EXPECT_EQ(FromProto(v1::LEASE_EXPIRY_ACTION_TAKE_OVER), OnLeaseExpiry::kTakeOver);
  EXPECT_EQ(FromProto(v1::LEASE_EXPIRY_ACTION_HOLD), OnLeaseExpiry::kHold);
  EXPECT_EQ(FromProto(v1::LEASE_EXPIRY_ACTION_UNSPECIFIED), OnLeaseExpiry::kHold);
  EXPECT_EQ(FromProto(static_cast<v1::LeaseExpiryAction>(3)), OnLeaseExpiry::kHold);
}

TEST(FromProto, TakesNonsenseFromABrokenServer) {
  google::protobuf::Duration span;
  span.set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_GT(FromProto(span), hours(24));
  google::protobuf::Timestamp instant;
  instant.set_seconds(std::numeric_limits<int64_t>::min());
  EXPECT_LT(FromProto(instant).time_since_epoch().count(), 0);
}

TEST(ErrorKindName, IsTheNameInAllLanguages) {
  EXPECT_STREQ(ErrorKindName(ErrorKind::kInvalidField), "InvalidField");
  EXPECT_STREQ(ErrorKindName(ErrorKind::kOutcomeNotRecorded), "OutcomeNotRecorded");
  EXPECT_STREQ(ErrorKindName(ErrorKind::kInternal), "Internal");
}

}  // namespace
}  // namespace idempotency::client
