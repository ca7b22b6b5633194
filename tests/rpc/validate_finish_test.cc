// Complete, Fail, Renew and Lookup; Begin has a file of its own.
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/validate.h"
#include "tests/rpc/request_samples.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

std::vector<std::string> FieldsOf(const Violations& violations) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : violations.list()) fields.push_back(violation.field);
  return fields;
}

std::vector<std::string> WrongFields(const v1::CompleteRequest& request, OwnerItem* item,
                                     const RequestBounds& bounds = {}) {
  Violations violations;
  ValidateComplete(request, bounds, item, &violations);
  return FieldsOf(violations);
}

std::vector<std::string> WrongFields(const v1::FailRequest& request, OwnerItem* item,
                                     const RequestBounds& bounds = {}) {
  Violations violations;
  ValidateFail(request, bounds, item, &violations);
  return FieldsOf(violations);
}

std::vector<std::string> WrongFields(const v1::RenewRequest& request, OwnerItem* item,
                                     const RequestBounds& bounds = {}) {
  Violations violations;
  ValidateRenew(request, bounds, item, &violations);
  return FieldsOf(violations);
}

void AddHeader(v1::Outcome& outcome, std::string name, std::string value) {
  v1::Header* header = outcome.add_headers();
  header->set_name(std::move(name));
  header->set_value(std::move(value));
}

// One way to change the sample's outcome, and the fields of it that are then wrong.
struct OutcomeCase {
  const char* name;
  std::function<void(v1::Outcome&)> change;
  std::vector<std::string> wrong_fields;
};

class ValidateOutcomeCases : public testing::TestWithParam<OutcomeCase> {
 protected:
  std::vector<std::string> Expected(const std::string& prefix) const {
    std::vector<std::string> fields;
    for (const std::string& field : GetParam().wrong_fields) fields.push_back(prefix + field);
    return fields;
  }
};

TEST_P(ValidateOutcomeCases, CompleteNamesExactlyTheWrongFields) {
  v1::CompleteRequest request = SampleComplete();
  GetParam().change(*request.mutable_outcome());
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item), ElementsAreArray(Expected("outcome.")));
}

TEST_P(ValidateOutcomeCases, FailNamesExactlyTheWrongFields) {
  v1::FailRequest request = SampleFail();
  GetParam().change(*request.mutable_failure()->mutable_outcome());
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item), ElementsAreArray(Expected("failure.outcome.")));
}

using O = v1::Outcome;

INSTANTIATE_TEST_SUITE_P(
    Headers, ValidateOutcomeCases,
    testing::ValuesIn(std::vector<OutcomeCase>{
        {"None", [](O&) {}, {}},
        {"SixtyFour",
         [](O& o) {
           for (int i = 0; i < 64; ++i) AddHeader(o, "X-A", "1");
         },
         {}},
        {"SixtyFive",
         [](O& o) {
           for (int i = 0; i < 65; ++i) AddHeader(o, "X-A", "1");
         },
         {"headers"}},
        {"NameEmpty", [](O& o) { AddHeader(o, "", "1"); }, {"headers[0].name"}},
        {"NameAtBound", [](O& o) { AddHeader(o, std::string(128, 'n'), "1"); }, {}},
        {"NamePastBound",
         [](O& o) { AddHeader(o, std::string(129, 'n'), "1"); },
         {"headers[0].name"}},
        {"NameOfEveryTokenMark", [](O& o) { AddHeader(o, "!#$%&'*+-.^_`|~09AZaz", "1"); }, {}},
        {"NameWithColon",
         [](O& o) {
           AddHeader(o, "Location", "/1");
           AddHeader(o, "a:b", "1");
         },
         {"headers[1].name"}},
        {"NameWithSpace", [](O& o) { AddHeader(o, "a b", "1"); }, {"headers[0].name"}},
        {"NameOutsideAscii", [](O& o) { AddHeader(o, "caf\xc3\xa9", "1"); }, {"headers[0].name"}},
        {"ValueOfAnyBytes", [](O& o) { AddHeader(o, "a", std::string("\0\xff\r\n", 4)); }, {}},
        {"BytesAtBound", [](O& o) { AddHeader(o, "a", std::string(16 * kKiB - 1, 'v')); }, {}},
        {"BytesPastBound",
         [](O& o) { AddHeader(o, "a", std::string(16 * kKiB, 'v')); },
         {"headers"}},
    }),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Body, ValidateOutcomeCases,
    testing::ValuesIn(std::vector<OutcomeCase>{
        {"Empty", [](O& o) { o.set_body(""); }, {}},
        {"AtBound", [](O& o) { o.set_body(std::string(256 * kKiB, 'b')); }, {}},
        {"PastBound", [](O& o) { o.set_body(std::string(256 * kKiB + 1, 'b')); }, {"body"}},
        {"SizeWithoutOmitted", [](O& o) { o.set_body_size(0); }, {"body_size"}},
        {"DigestWithoutOmitted",
         [](O& o) { o.set_body_sha256(std::string(32, 'd')); },
         {"body_sha256"}},
        {"Omitted",
         [](O& o) {
           o.set_body_omitted(true);
           o.set_body_size(0);
           o.set_body_sha256(std::string(32, 'd'));
         },
         {}},
        {"OmittedAlone", [](O& o) { o.set_body_omitted(true); }, {"body_size", "body_sha256"}},
        {"OmittedWithNegativeSize",
         [](O& o) {
           o.set_body_omitted(true);
           o.set_body_size(-1);
           o.set_body_sha256(std::string(32, 'd'));
         },
         {"body_size"}},
        {"OmittedWithShortDigest",
         [](O& o) {
           o.set_body_omitted(true);
           o.set_body_size(1);
           o.set_body_sha256(std::string(31, 'd'));
         },
         {"body_sha256"}},
        {"OmittedWithLongDigest",
         [](O& o) {
           o.set_body_omitted(true);
           o.set_body_size(1);
           o.set_body_sha256(std::string(33, 'd'));
         },
         {"body_sha256"}},
        {"OmittedBesideBody",
         [](O& o) {
           o.set_body("");
           o.set_body_omitted(true);
           o.set_body_size(1);
           o.set_body_sha256(std::string(32, 'd'));
         },
         {"body"}},
    }),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Texts, ValidateOutcomeCases,
    testing::ValuesIn(std::vector<OutcomeCase>{
        {"ContentTypeAtBound", [](O& o) { o.set_content_type(std::string(255, 'c')); }, {}},
        {"ContentTypePastBound",
         [](O& o) { o.set_content_type(std::string(256, 'c')); },
         {"content_type"}},
        {"ContentTypeWithControl", [](O& o) { o.set_content_type("a\n"); }, {"content_type"}},
        {"ResponseIdAtBound", [](O& o) { o.set_response_id(std::string(255, 'r')); }, {}},
        {"ResponseIdPastBound",
         [](O& o) { o.set_response_id(std::string(256, 'r')); },
         {"response_id"}},
        {"ResponseIdOutsideAscii", [](O& o) { o.set_response_id("\xc3\xa9"); }, {"response_id"}},
        {"StatusCodeLowest", [](O& o) { o.set_status_code(INT32_MIN); }, {}},
        {"StatusCodeHighest", [](O& o) { o.set_status_code(INT32_MAX); }, {}},
    }),
    [](const auto& instance) { return instance.param.name; });

TEST(ValidateComplete, NamesWhatIsMissing) {
  OwnerItem item;
  EXPECT_THAT(WrongFields(v1::CompleteRequest(), &item),
              ElementsAre("merchant_id", "idempotency_key", "attempt_id", "outcome"));
}

TEST(ValidateComplete, ObeysTheBodySetting) {
  RequestBounds bounds;
  bounds.max_outcome_body_bytes = 3;
  v1::CompleteRequest request = SampleComplete();
  request.mutable_outcome()->set_body("abc");
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item, bounds), IsEmpty());
  request.mutable_outcome()->set_body("abcd");
  EXPECT_THAT(WrongFields(request, &item, bounds), ElementsAre("outcome.body"));
}

TEST(ValidateComplete, KeepsTheOutcomeAsGiven) {
  v1::CompleteRequest request = SampleComplete();
  v1::Outcome& outcome = *request.mutable_outcome();
  AddHeader(outcome, "Set-Cookie", "a");
  AddHeader(outcome, "Set-Cookie", "b");
  outcome.set_content_type("text/plain");
  outcome.set_body(std::string("\0\xff", 2));
  outcome.set_response_id("pay-1");
  OwnerItem item;
  ASSERT_THAT(WrongFields(request, &item), IsEmpty());
  Outcome expected;
  expected.status_code = 201;
  expected.headers = {{"Set-Cookie", "a"}, {"Set-Cookie", "b"}};
  expected.content_type = "text/plain";
  expected.body = std::string("\0\xff", 2);
  expected.response_id = "pay-1";
  EXPECT_EQ(std::get<Outcome>(*item.answer), expected);
  EXPECT_EQ(item.key, (RecordKey{"acme", "order-1"}));
  EXPECT_EQ(item.attempt, HashAttemptId(kSampleAttempt));
}

TEST(ValidateComplete, TellsAnAbsentBodyFromAnEmptyOne) {
  v1::CompleteRequest request = SampleComplete();
  OwnerItem item;
  ASSERT_THAT(WrongFields(request, &item), IsEmpty());
  EXPECT_FALSE(std::get<Outcome>(*item.answer).body.has_value());
  request.mutable_outcome()->set_body("");
  ASSERT_THAT(WrongFields(request, &item), IsEmpty());
  EXPECT_EQ(std::get<Outcome>(*item.answer).body, "");
}

TEST(ValidateFail, NamesWhatIsMissing) {
  OwnerItem item;
  EXPECT_THAT(WrongFields(v1::FailRequest(), &item),
              ElementsAre("merchant_id", "idempotency_key", "attempt_id", "failure"));
}

TEST(ValidateFail, NeedsADisposition) {
  v1::FailRequest request = SampleFail();
  request.mutable_failure()->clear_disposition();
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item), ElementsAre("failure.disposition"));
}

TEST(ValidateFail, RefusesAnUnknownDisposition) {
  v1::FailRequest request = SampleFail();
  request.mutable_failure()->set_disposition(static_cast<v1::FailureDisposition>(4));
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item), ElementsAre("failure.disposition"));
}

TEST(ValidateFail, CountsTheTextsInBytes) {
  v1::FailRequest request = SampleFail();
  std::string euros;
  for (int i = 0; i < 21; ++i) euros += "\xe2\x82\xac";
  request.mutable_failure()->set_code(euros + "a");  // 64 bytes, 22 characters
  request.mutable_failure()->set_message(std::string(1024, 'm'));
  OwnerItem item;
  EXPECT_THAT(WrongFields(request, &item), IsEmpty());
  request.mutable_failure()->set_code(euros + "ab");
  request.mutable_failure()->set_message(std::string(1025, 'm'));
  EXPECT_THAT(WrongFields(request, &item), ElementsAre("failure.code", "failure.message"));
}

TEST(ValidateFail, KeepsTheFailureAsGiven) {
  v1::FailRequest request = SampleFail();
  request.mutable_failure()->set_disposition(v1::FAILURE_DISPOSITION_NOT_APPLIED);
  request.mutable_failure()->set_code("declined");
  request.mutable_failure()->set_message("no funds");
  OwnerItem item;
  ASSERT_THAT(WrongFields(request, &item), IsEmpty());
  EXPECT_EQ(std::get<Failure>(*item.answer),
            (Failure{Disposition::kNotApplied, "declined", "no funds", std::nullopt}));
  request.mutable_failure()->mutable_outcome();
  ASSERT_THAT(WrongFields(request, &item), IsEmpty());
  EXPECT_EQ(std::get<Failure>(*item.answer).outcome, Outcome());
}

TEST(ValidateRenew, NamesWhatIsWrong) {
  OwnerItem item;
  v1::RenewRequest request;
  request.mutable_lease_duration();
  EXPECT_THAT(WrongFields(request, &item),
              ElementsAre("merchant_id", "idempotency_key", "attempt_id", "lease_duration"));
}

TEST(ValidateRenew, TakesTheDefaultLease) {
  OwnerItem item;
  ASSERT_THAT(WrongFields(SampleRenew(), &item), IsEmpty());
  EXPECT_TRUE(item.IsRenew());
  EXPECT_EQ(item.lease_duration, absl::Seconds(60));
}

TEST(ValidateLookup, NamesWhatIsMissing) {
  LookupItem item;
  Violations violations;
  ValidateLookup(v1::LookupRequest(), &item, &violations);
  EXPECT_THAT(FieldsOf(violations), ElementsAre("merchant_id", "idempotency_key"));
}

TEST(ValidateLookup, FillsTheKey) {
  LookupItem item;
  Violations violations;
  ValidateLookup(SampleLookup(), &item, &violations);
  EXPECT_THAT(violations.list(), IsEmpty());
  EXPECT_EQ(item.key, (RecordKey{"acme", "order-1"}));
}

}  // namespace
}  // namespace idempotency
