// The helpers against client/vectors, which all clients share.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/client/downstream_key.h"
#include "idempotency/client/http_answer.h"
#include "idempotency/client/keys.h"
#include "idempotency/client/runner.h"
#include "tests/client_cpp/scenario/json_values.h"

namespace idempotency::client {
namespace {

using nlohmann::json;

json VectorsOf(const std::string& name) {
  std::ifstream file(absl::StrCat(IDEM_VECTORS_DIR, "/", name, ".json"));
  return json::parse(file);
}

std::vector<std::string> FieldsOf(const TextResult& result) {
  std::vector<std::string> fields;
  if (const auto* error = std::get_if<Error>(&result)) {
    EXPECT_EQ(error->kind, ErrorKind::kInvalidField);
    for (const auto& violation : error->violations) fields.push_back(violation.field);
  }
  return fields;
}

std::string TextOf(const TextResult& result) {
  const auto* text = std::get_if<std::string>(&result);
  return text == nullptr ? "refused: " + std::get<Error>(result).message : *text;
}

TEST(BusinessKeyVectors, GiveTheSameKeys) {
  const json vectors = VectorsOf("business_key");
  ASSERT_GE(vectors.at("cases").size(), 20);
  for (const json& each : vectors.at("cases")) {
    const auto parts = each.at("parts").get<std::vector<std::string>>();
    EXPECT_EQ(TextOf(BusinessKey(each.at("kind").get<std::string>(), parts)), each.at("key"))
        << each.at("name");
  }
}

TEST(BusinessKeyVectors, RefuseTheSameArguments) {
  const json vectors = VectorsOf("business_key");
  ASSERT_GE(vectors.at("refused").size(), 10);
  for (const json& each : vectors.at("refused")) {
    const auto parts = each.at("parts").get<std::vector<std::string>>();
    EXPECT_THAT(FieldsOf(BusinessKey(each.at("kind").get<std::string>(), parts)),
                testing::ElementsAre(each.at("field").get<std::string>()))
        << each.at("name");
  }
}

TEST(BusinessKey, RefusesPartsThatAreNotUtf8) {
  EXPECT_THAT(FieldsOf(BusinessKey("pay", {"\xFF", "1", "\xED\xA0\x80"})),
              testing::ElementsAre("parts[0]", "parts[2]"));
}

TEST(BusinessKeyFor, AsksForThirtyDays) {
  const Key key = BusinessKeyFor("shop-1", "pay", {"order:7", "card"});
  EXPECT_EQ(key.merchant_id, "shop-1");
  EXPECT_EQ(key.idempotency_key, "pay:order%3A7:card");
  EXPECT_EQ(key.ttl, std::chrono::hours(30 * 24));
  EXPECT_FALSE(key.fault.has_value());
}

TEST(BusinessKeyFor, KeepsWhyItIsNoKey) {
  const Key key = BusinessKeyFor("shop-1", "pay", {"1", ""});
  EXPECT_EQ(key.idempotency_key, "");
  EXPECT_EQ(key.fault->field, "parts[1]");
}

TEST(RandomRequestId, IsAUuidAndAlwaysAnother) {
  const std::string id = RandomRequestId();
  EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                        "[0-9a-f]{12}"));
  EXPECT_NE(id, RandomRequestId());
}

// nullopt: this language cannot say it.
std::optional<KeyShape> ShapeOf(const std::string& name) {
  if (name == "uuid") return KeyShape::Uuid();
  if (name == "hex32") return KeyShape::Hex32();
  if (name == "max50") return KeyShape::Max50();
  if (name == "max255") return KeyShape::Max255();
  for (int count = 0; count < 100; ++count) {
    if (name == absl::StrCat("digits", count)) return KeyShape::Digits(count);
  }
  return std::nullopt;
}

TEST(DownstreamKeyVectors, GiveTheSameKeys) {
  const json vectors = VectorsOf("downstream_key");
  ASSERT_GE(vectors.at("cases").size(), 50);
  for (const json& each : vectors.at("cases")) {
    Attempt attempt;
    attempt.downstream_key = each.at("downstream_key");
    const auto shape = ShapeOf(each.at("shape").get<std::string>());
    ASSERT_TRUE(shape.has_value()) << each;
    EXPECT_EQ(TextOf(attempt.DownstreamKeyFor(each.at("partner").get<std::string>(), *shape)),
              each.at("key"))
        << each;
  }
}

TEST(DownstreamKeyVectors, RefuseTheSameArguments) {
  const json vectors = VectorsOf("downstream_key");
  ASSERT_GE(vectors.at("refused").size(), 10);
  for (const json& each : vectors.at("refused")) {
    const auto shape = ShapeOf(each.at("shape").get<std::string>());
    if (!shape.has_value()) continue;
    EXPECT_THAT(FieldsOf(DownstreamKeyFor(each.at("downstream_key").get<std::string>(),
                                          each.at("partner").get<std::string>(), *shape)),
                testing::ElementsAre(each.at("field").get<std::string>()))
        << each.at("name");
  }
}

TEST(DownstreamKey, IsNoneOfAnUnprotectedAttempt) {
  Attempt attempt;
  attempt.unprotected = true;
  EXPECT_THAT(FieldsOf(attempt.DownstreamKeyFor("acme-bank", KeyShape::Uuid())),
              testing::ElementsAre("downstream_key"));
}

Error ErrorOfJson(const json& value) {
  Error error;
  const auto name = value.at("kind").get<std::string>();
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::kInternal); ++kind) {
    error.kind = static_cast<ErrorKind>(kind);
    if (name == ErrorKindName(error.kind)) break;
  }
  EXPECT_EQ(name, ErrorKindName(error.kind));
  error.message = value.value("message", "");
  error.still_recording = value.value("still_recording", false);
  if (value.contains("retry_after_ms")) {
    error.retry_after = std::chrono::milliseconds(value.at("retry_after_ms").get<int64_t>());
  }
  if (value.contains("work")) error.work = WorkOfJson(value.at("work"));
  return error;
}

Failure FailureOfJson(json value) {
  value["kind"] = value.at("disposition");
  return *WorkOfJson(value).failure();
}

RunResult ResultOfJson(const json& value) {
  const auto kind = value.at("kind").get<std::string>();
  if (kind == "Completed") {
    Completed completed;
    completed.outcome = OutcomeOfJson(value.at("outcome"));
    completed.recorded_without_body = value.value("recorded_without_body", false);
    return completed;
  }
  if (kind == "Failed") {
    Failed failed;
    failed.failure = FailureOfJson(value.at("failure"));
    return failed;
  }
  if (kind == "Replayed") {
    Replayed replayed;
    if (value.contains("outcome")) {
      replayed.answer = OutcomeOfJson(value.at("outcome"));
    } else {
      replayed.answer = FailureOfJson(value.at("failure"));
    }
    return replayed;
  }
  if (kind == "InProgress") {
    InProgress in_progress;
    in_progress.retry_after = std::chrono::milliseconds(value.at("retry_after_ms").get<int64_t>());
    return in_progress;
  }
  if (kind == "Unprotected") {
    Unprotected unprotected;
    unprotected.work = WorkOfJson(value.at("work"));
    return unprotected;
  }
  return ErrorOfJson(value.at("error"));
}

TEST(HttpAnswerVectors, GiveTheSameAnswers) {
  const json vectors = VectorsOf("http_answer");
  ASSERT_GE(vectors.at("cases").size(), 50);
  for (const json& each : vectors.at("cases")) {
    const HttpAnswer answer = HttpAnswerOf(ResultOfJson(each.at("result")));
    json headers = json::array();
    for (const Header& header : answer.headers) headers.push_back({header.name, header.value});
    const json actual = {
        {"status", answer.status}, {"headers", headers}, {"body", JsonOfBytes(answer.body)}};
    EXPECT_EQ(actual, each.at("answer")) << each.at("name");
  }
}

TEST(HttpAnswer, IsJsonWhateverTheFailuresWordsAre) {
  Failed failed;
  failed.failure.disposition = FailureDisposition::kFinal;
  failed.failure.code = "\xFF";
  failed.failure.message = "\b\f\r\t\x7F\x1F";
  EXPECT_EQ(HttpAnswerOf(failed).body, R"({"status":422,"code":"?","message":"\b\f\r\t)"
                                       "\x7F"
                                       R"(\u001f"})");
}

TEST(HttpAnswer, TakesSpansAtTheEndsOfTheirType) {
  InProgress in_progress;
  const auto retry_after = [&](std::chrono::milliseconds span) {
    in_progress.retry_after = span;
    return HttpAnswerOf(in_progress).headers.at(1).value;
  };
  EXPECT_EQ(retry_after(std::chrono::milliseconds::max()), "9223372036854776");
  EXPECT_EQ(retry_after(std::chrono::milliseconds::min()), "1");
}

TEST(HttpAnswer, LeavesOutABodyThatIsSaidToBeOmitted) {
  Completed completed;
  completed.outcome.status_code = 200;
  completed.outcome.body = "half of it";
  completed.outcome.body_omitted = true;
  EXPECT_EQ(HttpAnswerOf(completed).body, "");
}

}  // namespace
}  // namespace idempotency::client
