#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fingerprint.h"
#include "server/rpc/validate.h"
#include "tests/rpc/request_samples.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct Checked {
  ValidBegin valid;
  std::vector<FieldViolation> violations;
  std::vector<std::string> fields;
};

Checked Check(const v1::BeginRequest& request, const RequestBounds& bounds = {}) {
  Checked checked;
  Violations violations;
  ValidateBegin(request, bounds, &checked.valid, &violations);
  checked.violations = violations.list();
  for (const FieldViolation& violation : checked.violations) {
    checked.fields.push_back(violation.field);
  }
  return checked;
}

void SetDuration(google::protobuf::Duration* duration, int64_t seconds, int32_t nanos = 0) {
  duration->set_seconds(seconds);
  duration->set_nanos(nanos);
}

// One way to change the sample, and the fields that are then wrong.
struct BeginCase {
  const char* name;
  std::function<void(v1::BeginRequest&)> change;
  std::vector<std::string> wrong_fields;
};

class ValidateBeginCases : public testing::TestWithParam<BeginCase> {};

TEST_P(ValidateBeginCases, NamesExactlyTheWrongFields) {
  v1::BeginRequest request = SampleBegin();
  GetParam().change(request);
  EXPECT_THAT(Check(request).fields, testing::ElementsAreArray(GetParam().wrong_fields));
}

using R = v1::BeginRequest;

INSTANTIATE_TEST_SUITE_P(
    Texts, ValidateBeginCases,
    testing::ValuesIn(std::vector<BeginCase>{
        {"AsItStands", [](R&) {}, {}},
        {"MerchantMissing", [](R& r) { r.clear_merchant_id(); }, {"merchant_id"}},
        {"MerchantAtBound", [](R& r) { r.set_merchant_id(std::string(64, 'm')); }, {}},
        {"MerchantPastBound",
         [](R& r) { r.set_merchant_id(std::string(65, 'm')); },
         {"merchant_id"}},
        {"MerchantAllCharacters", [](R& r) { r.set_merchant_id("AZaz09._:-"); }, {}},
        {"MerchantWithSlash", [](R& r) { r.set_merchant_id("a/b"); }, {"merchant_id"}},
        {"MerchantWithSpace", [](R& r) { r.set_merchant_id("a b"); }, {"merchant_id"}},
        {"MerchantWithLetterOutsideAscii",
         [](R& r) { r.set_merchant_id("caf\xc3\xa9"); },
         {"merchant_id"}},
        {"KeyMissing", [](R& r) { r.clear_idempotency_key(); }, {"idempotency_key"}},
        {"KeyOfOneSpace", [](R& r) { r.set_idempotency_key(" "); }, {}},
        {"KeyAtBound", [](R& r) { r.set_idempotency_key(std::string(255, '~')); }, {}},
        {"KeyPastBound",
         [](R& r) { r.set_idempotency_key(std::string(256, 'k')); },
         {"idempotency_key"}},
        {"KeyWithDelete", [](R& r) { r.set_idempotency_key("a\x7f"); }, {"idempotency_key"}},
        {"KeyWithTab", [](R& r) { r.set_idempotency_key("a\tb"); }, {"idempotency_key"}},
        {"KeyWithNul",
         [](R& r) { r.set_idempotency_key(std::string("a\0b", 3)); },
         {"idempotency_key"}},
        // 128 characters, 256 bytes: lengths are bytes.
        {"KeyOutsideAscii",
         [](R& r) {
           std::string key;
           for (int i = 0; i < 128; ++i) key += "\xc3\xa9";
           r.set_idempotency_key(key);
         },
         {"idempotency_key"}},
        {"OperationMissing", [](R& r) { r.clear_operation(); }, {"operation"}},
        {"OperationAtBound", [](R& r) { r.set_operation(std::string(128, 'o')); }, {}},
        {"OperationPastBound", [](R& r) { r.set_operation(std::string(129, 'o')); }, {"operation"}},
        {"OperationWithNewline", [](R& r) { r.set_operation("POST\n"); }, {"operation"}},
        {"AttemptTooShort", [](R& r) { r.set_attempt_id(std::string(15, 'a')); }, {"attempt_id"}},
        {"AttemptShortest", [](R& r) { r.set_attempt_id(std::string(16, 'a')); }, {}},
        {"AttemptAtBound", [](R& r) { r.set_attempt_id(std::string(64, 'a')); }, {}},
        {"AttemptPastBound", [](R& r) { r.set_attempt_id(std::string(65, 'a')); }, {"attempt_id"}},
        {"AttemptWithControl",
         [](R& r) { r.set_attempt_id("0123456789abcde\x01"); },
         {"attempt_id"}},
        {"AttemptMissing", [](R& r) { r.clear_attempt_id(); }, {}},
        {"AttemptMissingWithHold",
         [](R& r) {
           r.clear_attempt_id();
           r.set_on_lease_expiry(v1::LEASE_EXPIRY_ACTION_HOLD);
         },
         {"attempt_id"}},
        {"Hold", [](R& r) { r.set_on_lease_expiry(v1::LEASE_EXPIRY_ACTION_HOLD); }, {}},
        {"ActionUnknown",
         [](R& r) { r.set_on_lease_expiry(static_cast<v1::LeaseExpiryAction>(3)); },
         {"on_lease_expiry"}},
        {"ActionNegative",
         [](R& r) { r.set_on_lease_expiry(static_cast<v1::LeaseExpiryAction>(-1)); },
         {"on_lease_expiry"}},
    }),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Fingerprints, ValidateBeginCases,
    testing::ValuesIn(std::vector<BeginCase>{
        {"NeitherOfTheTwo", [](R& r) { r.clear_request(); }, {"request"}},
        {"TooShort", [](R& r) { r.set_fingerprint(std::string(31, 'f')); }, {"fingerprint"}},
        {"TooLong", [](R& r) { r.set_fingerprint(std::string(33, 'f')); }, {"fingerprint"}},
        {"PresentAndEmpty", [](R& r) { r.set_fingerprint(""); }, {"fingerprint"}},
        {"SchemeOne", [](R& r) { r.set_fingerprint_scheme(1); }, {}},
        {"SchemeTwo", [](R& r) { r.set_fingerprint_scheme(2); }, {"fingerprint_scheme"}},
        {"SchemeNegative", [](R& r) { r.set_fingerprint_scheme(-1); }, {"fingerprint_scheme"}},
        {"PayloadEmpty", [](R& r) { r.mutable_payload(); }, {}},
        {"PayloadAtBound",
         [](R& r) { r.mutable_payload()->set_data(std::string(kMaxPayloadBytes, 'x')); },
         {}},
        {"PayloadPastBound",
         [](R& r) { r.mutable_payload()->set_data(std::string(kMaxPayloadBytes + 1, 'x')); },
         {"payload.data"}},
        {"ContentTypeAtBound",
         [](R& r) { r.mutable_payload()->set_content_type(std::string(255, 'x')); },
         {}},
        {"ContentTypePastBound",
         [](R& r) { r.mutable_payload()->set_content_type(std::string(256, 'x')); },
         {"payload.content_type"}},
        {"ContentTypeWithControl",
         [](R& r) { r.mutable_payload()->set_content_type("text/plain\r\n"); },
         {"payload.content_type"}},
        {"BrokenJson",
         [](R& r) {
           r.mutable_payload()->set_content_type("application/json");
           r.mutable_payload()->set_data("{\"amount\":1,\"amount\":2}");
         },
         {"payload.data"}},
    }),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Durations, ValidateBeginCases,
    testing::ValuesIn(std::vector<BeginCase>{
        {"TtlZero", [](R& r) { SetDuration(r.mutable_ttl(), 0); }, {"ttl"}},
        {"TtlNegative", [](R& r) { SetDuration(r.mutable_ttl(), -60); }, {"ttl"}},
        {"TtlShortest", [](R& r) { SetDuration(r.mutable_ttl(), 60); }, {}},
        {"TtlTooShort", [](R& r) { SetDuration(r.mutable_ttl(), 59, 999999999); }, {"ttl"}},
        {"TtlLongest", [](R& r) { SetDuration(r.mutable_ttl(), 30 * 86400); }, {}},
        {"TtlTooLong", [](R& r) { SetDuration(r.mutable_ttl(), 30 * 86400, 1); }, {"ttl"}},
        {"TtlNanosOutOfRange", [](R& r) { SetDuration(r.mutable_ttl(), 60, 1000000000); }, {"ttl"}},
        {"TtlSignsDiffer", [](R& r) { SetDuration(r.mutable_ttl(), 61, -1); }, {"ttl"}},
        {"TtlEnormous", [](R& r) { SetDuration(r.mutable_ttl(), INT64_MAX, 0); }, {"ttl"}},
        {"LeaseZero", [](R& r) { SetDuration(r.mutable_lease_duration(), 0); }, {"lease_duration"}},
        {"LeaseShortest", [](R& r) { SetDuration(r.mutable_lease_duration(), 1); }, {}},
        {"LeaseTooShort",
         [](R& r) { SetDuration(r.mutable_lease_duration(), 0, 999999999); },
         {"lease_duration"}},
        {"LeaseLongest", [](R& r) { SetDuration(r.mutable_lease_duration(), 3600); }, {}},
        {"LeaseTooLong",
         [](R& r) { SetDuration(r.mutable_lease_duration(), 3600, 1); },
         {"lease_duration"}},
        {"LeaseNegative",
         [](R& r) { SetDuration(r.mutable_lease_duration(), -1); },
         {"lease_duration"}},
        {"WaitZero", [](R& r) { SetDuration(r.mutable_wait_timeout(), 0); }, {}},
        {"WaitNegative",
         [](R& r) { SetDuration(r.mutable_wait_timeout(), 0, -1); },
         {"wait_timeout"}},
        {"WaitMalformed",
         [](R& r) { SetDuration(r.mutable_wait_timeout(), 1, -1); },
         {"wait_timeout"}},
        {"WaitPastItsClamp", [](R& r) { SetDuration(r.mutable_wait_timeout(), 3600); }, {}},
    }),
    [](const auto& instance) { return instance.param.name; });

R& WithLabel(R& r, const std::string& name, const std::string& value) {
  (*r.mutable_labels())[name] = value;
  return r;
}

INSTANTIATE_TEST_SUITE_P(
    Labels, ValidateBeginCases,
    testing::ValuesIn(std::vector<BeginCase>{
        {"SixteenLabels",
         [](R& r) {
           for (int i = 0; i < 16; ++i) WithLabel(r, absl::StrCat("l", i), "v");
         },
         {}},
        {"SeventeenLabels",
         [](R& r) {
           for (int i = 0; i < 17; ++i) WithLabel(r, absl::StrCat("l", i), "v");
         },
         {"labels"}},
        {"NameEmpty", [](R& r) { WithLabel(r, "", "v"); }, {"labels"}},
        {"NameAtBound", [](R& r) { WithLabel(r, std::string(32, 'n'), "v"); }, {}},
        {"NamePastBound", [](R& r) { WithLabel(r, std::string(33, 'n'), "v"); }, {"labels"}},
        {"NameWithControl", [](R& r) { WithLabel(r, "a\nb", "v"); }, {"labels"}},
        {"ValueEmpty", [](R& r) { WithLabel(r, "order", ""); }, {}},
        {"ValueAtBound", [](R& r) { WithLabel(r, "order", std::string(128, 'v')); }, {}},
        {"ValuePastBound",
         [](R& r) { WithLabel(r, "order", std::string(129, 'v')); },
         {"labels[\"order\"]"}},
        {"ValueOutsideAscii", [](R& r) { WithLabel(r, "order", "caf\xc3\xa9 \xc2\xa0"); }, {}},
        {"ValueWithControl", [](R& r) { WithLabel(r, "order", "a\x1f"); }, {"labels[\"order\"]"}},
        {"ValueWithDelete", [](R& r) { WithLabel(r, "order", "a\x7f"); }, {"labels[\"order\"]"}},
        {"ValueWithC1Control",
         [](R& r) { WithLabel(r, "order", "a\xc2\x85"); },
         {"labels[\"order\"]"}},
        {"NameWithQuote",
         [](R& r) { WithLabel(r, "a\"b\\", std::string(129, 'v')); },
         {"labels[\"a\\\"b\\\\\"]"}},
    }),
    [](const auto& instance) { return instance.param.name; });

TEST(ValidateBegin, ReportsEveryWrongFieldInTheirOrder) {
  v1::BeginRequest request;
  SetDuration(request.mutable_ttl(), 0);
  SetDuration(request.mutable_lease_duration(), 0);
  SetDuration(request.mutable_wait_timeout(), -1);
  request.set_fingerprint_scheme(7);
  request.set_attempt_id("short");
  EXPECT_THAT(Check(request).fields,
              ElementsAre("merchant_id", "idempotency_key", "operation", "attempt_id", "request",
                          "fingerprint_scheme", "ttl", "lease_duration", "wait_timeout"));
}

TEST(ValidateBegin, StopsAtSixteenViolations) {
  v1::BeginRequest request;
  for (int i = 0; i < 16; ++i) WithLabel(request, absl::StrCat("l", i), "\n");
  EXPECT_THAT(Check(request).fields, SizeIs(16));
}

TEST(ValidateBegin, RepeatsNothingOfTheContent) {
  v1::BeginRequest request = SampleBegin();
  request.set_merchant_id("secret/merchant");
  request.set_idempotency_key("secret\nkey");
  request.set_operation("secret\noperation");
  request.set_attempt_id("secret");
  request.mutable_payload()->set_content_type("application/json");
  request.mutable_payload()->set_data("{\"secret\":1,\"secret\":2}");
  WithLabel(request, "order", "secret\n");
  WithLabel(request, "secret\n", "");
  const Checked checked = Check(request);
  EXPECT_THAT(checked.violations, SizeIs(7));
  for (const FieldViolation& violation : checked.violations) {
    EXPECT_EQ(violation.field.find("secret"), std::string::npos) << violation.field;
    EXPECT_EQ(violation.description.find("secret"), std::string::npos) << violation.description;
  }
}

TEST(ValidateBegin, NamesTheBoundInItsDescription) {
  v1::BeginRequest request = SampleBegin();
  request.set_idempotency_key(std::string(256, 'k'));
  SetDuration(request.mutable_ttl(), 1);
  EXPECT_THAT(Check(request).violations,
              ElementsAre(FieldViolation{"idempotency_key", "must be at most 255 bytes"},
                          FieldViolation{"ttl", "must be 1m to 720h, or left out for 24h"}));
}

TEST(ValidateBegin, FillsTheItem) {
  v1::BeginRequest request = SampleBegin();
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_ACTION_HOLD);
  request.set_fingerprint_scheme(1);
  WithLabel(request, "order", "17");
  const Checked checked = Check(request);
  ASSERT_THAT(checked.violations, IsEmpty());
  const BeginItem& item = checked.valid.item;
  EXPECT_EQ(item.key, (RecordKey{"acme", "order-1"}));
  EXPECT_EQ(item.operation, "POST /orders");
  EXPECT_EQ(item.attempt, HashAttemptId(kSampleAttempt));
  EXPECT_EQ(checked.valid.attempt_id, kSampleAttempt);
  Fingerprint expected;
  expected.fill('f');
  EXPECT_EQ(item.fingerprint, expected);
  EXPECT_EQ(item.fingerprint_scheme, 1);
  EXPECT_TRUE(item.hold);
  EXPECT_EQ(item.labels, (Labels{{"order", "17"}}));
}

TEST(ValidateBegin, TakesTheDefaultsWhenSpansAreAbsent) {
  const Checked checked = Check(SampleBegin());
  EXPECT_EQ(checked.valid.item.ttl, absl::Hours(24));
  EXPECT_EQ(checked.valid.item.lease_duration, absl::Seconds(60));
  EXPECT_EQ(checked.valid.wait, absl::ZeroDuration());
  EXPECT_FALSE(checked.valid.item.hold);
}

TEST(ValidateBegin, RoundsSpansUp) {
  v1::BeginRequest request = SampleBegin();
  SetDuration(request.mutable_ttl(), 90, 1);
  SetDuration(request.mutable_lease_duration(), 2, 1);
  SetDuration(request.mutable_wait_timeout(), 0, 1);
  const Checked checked = Check(request);
  EXPECT_EQ(checked.valid.item.ttl, absl::Seconds(91));
  EXPECT_EQ(checked.valid.item.lease_duration, absl::Milliseconds(2001));
  EXPECT_EQ(checked.valid.wait, absl::Milliseconds(1));
}

TEST(ValidateBegin, CountsALongWaitAsThirtySeconds) {
  v1::BeginRequest request = SampleBegin();
  SetDuration(request.mutable_wait_timeout(), 30, 1);
  EXPECT_EQ(Check(request).valid.wait, absl::Seconds(30));
}

TEST(ValidateBegin, ObeysTheSettingsBounds) {
  RequestBounds bounds;
  bounds.ttl = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(3)};
  bounds.lease = {absl::Milliseconds(10), absl::Milliseconds(20), absl::Milliseconds(30)};
  v1::BeginRequest request = SampleBegin();
  EXPECT_EQ(Check(request, bounds).valid.item.ttl, absl::Seconds(2));
  SetDuration(request.mutable_ttl(), 4);
  SetDuration(request.mutable_lease_duration(), 0, 31'000'000);
  EXPECT_THAT(Check(request, bounds).fields, ElementsAre("ttl", "lease_duration"));
}

TEST(ValidateBegin, MakesAnotherAttemptIdEachTimeNoneIsGiven) {
  v1::BeginRequest request = SampleBegin();
  request.clear_attempt_id();
  const Checked first = Check(request);
  const Checked second = Check(request);
  EXPECT_THAT(first.valid.attempt_id, SizeIs(36));
  EXPECT_NE(first.valid.attempt_id, second.valid.attempt_id);
  EXPECT_EQ(first.valid.item.attempt, HashAttemptId(first.valid.attempt_id));
}

TEST(ValidateBegin, FingerprintsAPayloadUnderSchemeOne) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload()->set_content_type("application/json");
  request.mutable_payload()->set_data("{\"b\":1.0,\"a\":2}");
  const Checked checked = Check(request);
  EXPECT_EQ(checked.valid.item.fingerprint,
            *FingerprintOf("application/json", "{\"a\":2,\"b\":1}"));
  EXPECT_EQ(checked.valid.item.fingerprint_scheme, 1);
}

TEST(ValidateBegin, TellsAnEmptyPayloadFromNone) {
  v1::BeginRequest request = SampleBegin();
  request.mutable_payload();
  const Checked checked = Check(request);
  EXPECT_THAT(checked.violations, IsEmpty());
  EXPECT_EQ(checked.valid.item.fingerprint, *FingerprintOf("", ""));
}

}  // namespace
}  // namespace idempotency
