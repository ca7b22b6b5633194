#include "server/rpc/errors.h"

#include <algorithm>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/limit.h"
#include "tests/rpc/error_details.h"

namespace idempotency {
namespace {

using testing::HasSubstr;

struct FaultCase {
  Fault fault;
  grpc::StatusCode code;
  const char* reason;
  bool says_when_to_retry;
};

class FaultErrors : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultErrors, HaveCodeReasonAndRetryInfo) {
  const FaultCase& expected = GetParam();
  const CallError error = FaultError(expected.fault, "id-1");
  EXPECT_EQ(error.status.error_code(), expected.code);
  EXPECT_EQ(ReasonOf(error.status), expected.reason);
  EXPECT_EQ(error.reason, expected.reason);
  EXPECT_FALSE(error.status.error_message().empty());
  const auto retry = DetailOf<google::rpc::RetryInfo>(error.status);
  EXPECT_EQ(retry.has_value(), expected.says_when_to_retry);
  EXPECT_EQ(error.retry_after.has_value(), expected.says_when_to_retry);
  if (retry.has_value() && error.retry_after.has_value()) {
    EXPECT_EQ(absl::Seconds(retry->retry_delay().seconds()) +
                  absl::Nanoseconds(retry->retry_delay().nanos()),
              *error.retry_after);
    EXPECT_GT(*error.retry_after, absl::ZeroDuration());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultErrors,
    testing::Values(
        FaultCase{Fault::kStoreUnavailable, grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE",
                  true},
        FaultCase{Fault::kLockTimeout, grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE", true},
        FaultCase{Fault::kSchemaIncompatible, grpc::StatusCode::UNAVAILABLE, "SCHEMA_INCOMPATIBLE",
                  true},
        FaultCase{Fault::kOverloaded, grpc::StatusCode::UNAVAILABLE, "OVERLOADED", true},
        FaultCase{Fault::kDraining, grpc::StatusCode::UNAVAILABLE, "DRAINING", false},
        FaultCase{Fault::kCommitUnknown, grpc::StatusCode::UNAVAILABLE, "COMMIT_UNKNOWN", false},
        FaultCase{Fault::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED, "", false},
        FaultCase{Fault::kCancelled, grpc::StatusCode::CANCELLED, "", false},
        FaultCase{Fault::kInternal, grpc::StatusCode::INTERNAL, "INTERNAL", false}),
    [](const auto& instance) {
      return "Fault" + std::to_string(static_cast<int>(instance.param.fault));
    });

TEST(Errors, InternalNamesTheRequestId) {
  EXPECT_THAT(FaultError(Fault::kInternal, "id-1").status.error_message(), HasSubstr("id-1"));
}

struct OwnerCase {
  OwnerVerdict verdict;
  grpc::StatusCode code;
  const char* reason;
};

class OwnerErrors : public testing::TestWithParam<OwnerCase> {};

TEST_P(OwnerErrors, HaveCodeAndReason) {
  const CallError error = OwnerRefused(GetParam().verdict);
  EXPECT_EQ(error.status.error_code(), GetParam().code);
  EXPECT_EQ(ReasonOf(error.status), GetParam().reason);
  EXPECT_EQ(error.retry_after, std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(
    All, OwnerErrors,
    testing::Values(OwnerCase{OwnerVerdict::kAlreadyFinished, grpc::StatusCode::FAILED_PRECONDITION,
                              "ALREADY_FINISHED"},
                    OwnerCase{OwnerVerdict::kOutcomeConflict, grpc::StatusCode::FAILED_PRECONDITION,
                              "OUTCOME_CONFLICT"},
                    OwnerCase{OwnerVerdict::kLeaseLost, grpc::StatusCode::ABORTED, "LEASE_LOST"},
                    OwnerCase{OwnerVerdict::kRecordNotFound, grpc::StatusCode::NOT_FOUND,
                              "RECORD_NOT_FOUND"},
                    OwnerCase{OwnerVerdict::kNeedsResolution, grpc::StatusCode::FAILED_PRECONDITION,
                              "NEEDS_RESOLUTION"}),
    [](const auto& instance) { return std::string(instance.param.reason); });

BeginResult ResultOf(BeginVerdict verdict) {
  auto record = std::make_shared<Record>();
  record->key = {"acme", "order-1"};
  record->created_at = absl::FromUnixMicros(1'767'225'600'000'001);
  record->started_at = record->created_at;
  record->lease_duration = absl::Seconds(60);
  record->lease_expires_at = record->created_at + record->lease_duration;
  record->fingerprint_scheme = 1;
  BeginResult result;
  result.verdict = verdict;
  result.record = record;
  result.reading.now = record->created_at;
  return result;
}

TEST(Errors, KeyReusedTellsTheRecordButNotItsContent) {
  const CallError error = BeginRefused(ResultOf(BeginVerdict::kKeyReused), 0, Policy());
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const auto info = DetailOf<google::rpc::ErrorInfo>(error.status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason(), "KEY_REUSED");
  EXPECT_EQ(info->domain(), "idempotency.v1");
  EXPECT_EQ(info->metadata().size(), 5u);
  EXPECT_EQ(info->metadata().at("record_id").size(), 36u);
  EXPECT_EQ(info->metadata().at("state"), "IN_PROGRESS");
  EXPECT_EQ(info->metadata().at("create_time"), "2026-01-01T00:00:00.000001Z");
  EXPECT_EQ(info->metadata().at("stored_fingerprint_scheme"), "1");
  EXPECT_EQ(info->metadata().at("given_fingerprint_scheme"), "0");
}

TEST(Errors, KeyReusedShowsTheStateThatLookupShows) {
  BeginResult result = ResultOf(BeginVerdict::kKeyReused);
  result.reading.now += absl::Hours(1);
  const auto info = DetailOf<google::rpc::ErrorInfo>(BeginRefused(result, 0, Policy()).status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->metadata().at("state"), "ABANDONED");
}

TEST(Errors, BeginLeaseLostIsAborted) {
  const CallError error = BeginRefused(ResultOf(BeginVerdict::kLeaseLost), 0, Policy());
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(error.status), "LEASE_LOST");
}

TEST(Errors, BeginNeedsResolutionIsFailedPrecondition) {
  const CallError error = BeginRefused(ResultOf(BeginVerdict::kNeedsResolution), 0, Policy());
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(error.status), "NEEDS_RESOLUTION");
}

TEST(Errors, CredentialsAndRightsHaveTheirCodes) {
  EXPECT_EQ(CredentialsMissing().status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReasonOf(CredentialsMissing().status), "CREDENTIALS_MISSING");
  EXPECT_EQ(CredentialsInvalid().status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReasonOf(CredentialsInvalid().status), "CREDENTIALS_INVALID");
  EXPECT_EQ(MerchantForbidden().status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(MerchantForbidden().status), "MERCHANT_FORBIDDEN");
}

TEST(Errors, ARateLimitSaysWhenToRetry) {
  const CallError error = MerchantRateLimited(absl::Milliseconds(1500));
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(error.status), "MERCHANT_RATE_LIMITED");
  const auto retry = DetailOf<google::rpc::RetryInfo>(error.status);
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->retry_delay().seconds(), 1);
  EXPECT_EQ(retry->retry_delay().nanos(), 500'000'000);
}

TEST(Errors, AMerchantWithTooManyCallsIsToldWhenToComeBack) {
  const CallError error = MerchantHasTooManyCalls();
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(error.status), "MERCHANT_RATE_LIMITED");
  ASSERT_TRUE(error.retry_after.has_value());
  EXPECT_TRUE(DetailOf<google::rpc::RetryInfo>(error.status).has_value());
}

TEST(Errors, HintsAreSpreadOverTheSpanAgainAndNeverShorter) {
  absl::Duration shortest = absl::InfiniteDuration();
  absl::Duration longest = absl::ZeroDuration();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration hint = Jittered(absl::Milliseconds(100));
    shortest = std::min(shortest, hint);
    longest = std::max(longest, hint);
  }
  EXPECT_GE(shortest, absl::Milliseconds(100));
  EXPECT_LE(longest, absl::Milliseconds(200));
  EXPECT_GT(longest - shortest, absl::Milliseconds(50));
}

TEST(Errors, AHintIsAWholeMillisecondAtLeast) {
  EXPECT_GE(Jittered(absl::ZeroDuration()), absl::Milliseconds(1));
  EXPECT_GE(Jittered(absl::Microseconds(1001)), absl::Milliseconds(2));
}

TEST(Errors, AStoreThatIsUnavailableMayBeALockedRow) {
  for (const Fault fault : {Fault::kStoreUnavailable, Fault::kLockTimeout}) {
    EXPECT_NE(
        FaultError(fault, "").status.error_message().find("another transaction holds the row"),
        std::string::npos);
  }
}

TEST(Errors, InvalidFieldsNamesEachField) {
  Violations violations;
  violations.Add("ttl", "must be shorter");
  violations.Add("outcome.headers[3].name", "must be a token");
  const CallError error = InvalidFields(violations);
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(error.status), "INVALID_FIELD");
  EXPECT_EQ(WrongFieldsOf(error.status), "ttl,outcome.headers[3].name");
  EXPECT_EQ(error.status.error_message(), "ttl: must be shorter (and 1 more)");
}

TEST(Errors, AnUnparsableMessageHasItsOwnField) {
  const CallError error = UnparsableMessage();
  EXPECT_EQ(ReasonOf(error.status), "INVALID_FIELD");
  EXPECT_EQ(WrongFieldsOf(error.status), "(message)");
}

TEST(Errors, DetailsStayWithinTheirBound) {
  Violations violations;
  for (int i = 0; i < kMaxFieldViolations; ++i) {
    violations.Add("labels[\"" + std::string(64, 'n') + "\"]", std::string(300, 'd'));
  }
  const CallError error = InvalidFields(violations);
  EXPECT_LT(error.status.error_details().size(), kMaxErrorDetailBytes);
  EXPECT_EQ(ReasonOf(error.status), "INVALID_FIELD");
  EXPECT_NE(WrongFieldsOf(error.status), "");
}

}  // namespace
}  // namespace idempotency
