#include "server/record/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/record/digest.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

using ::testing::HasSubstr;

constexpr char kJson[] = "application/json";

std::string Hex(const Fingerprint& fingerprint) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size()));
}

// The fingerprint in hex, or the fault.
std::string FingerprintHex(absl::string_view content_type, absl::string_view body) {
  const absl::StatusOr<Fingerprint> fingerprint = FingerprintOf(content_type, body);
  return fingerprint.ok() ? Hex(*fingerprint) : fingerprint.status().ToString();
}

std::string JsonFingerprint(absl::string_view body) { return FingerprintHex(kJson, body); }

std::string PlainSha256(absl::string_view bytes) { return Hex(Sha256().Bytes(bytes).Finish()); }

std::string Base64(const nlohmann::json& vector, const char* member) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(vector.at(member).get<std::string>(), &bytes));
  return bytes;
}

std::vector<nlohmann::json> Vectors() {
  std::ifstream file(IDEM_TEST_DATA_DIR "/fingerprint.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  return std::vector<nlohmann::json>(all.begin(), all.end());
}

TEST(Fingerprint, HoldsForEveryVectorWithACanonicalForm) {
  int seen = 0;
  for (const nlohmann::json& vector : Vectors()) {
    if (vector.contains("error")) {
      continue;
    }
    SCOPED_TRACE(vector.at("name").get<std::string>());
    ++seen;
    const std::string content_type = vector.at("content_type");
    const std::string body = Base64(vector, "body_base64");
    const absl::StatusOr<std::string> canonical = CanonicalBody(content_type, body);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    EXPECT_EQ(*canonical, Base64(vector, "canonical_base64"));
    EXPECT_EQ(FingerprintHex(content_type, body), vector.at("fingerprint_hex").get<std::string>());
  }
  EXPECT_GE(seen, 40);
}

TEST(Fingerprint, RefusesEveryVectorWithoutACanonicalForm) {
  int seen = 0;
  for (const nlohmann::json& vector : Vectors()) {
    if (!vector.contains("error")) {
      continue;
    }
    SCOPED_TRACE(vector.at("name").get<std::string>());
    ++seen;
    EXPECT_EQ(vector.at("error"), "INVALID_FIELD");
    const std::string content_type = vector.at("content_type");
    const std::string body = Base64(vector, "body_base64");
    EXPECT_EQ(FingerprintOf(content_type, body).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(CanonicalBody(content_type, body).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_GE(seen, 20);
}

TEST(Fingerprint, IgnoresMemberOrderWhiteSpaceAndEscapes) {
  EXPECT_EQ(JsonFingerprint(R"({"amount":100,"note":"a/b"})"),
            JsonFingerprint("{ \"note\" : \"\\u0061\\/b\",\n\t\"\\u0061mount\": 1e2 }"));
}

TEST(Fingerprint, TellsAbsentNullEmptyStringAndEmptyObjectApart) {
  const std::vector<std::string> bodies = {"", "null", "\"\"", "{}", "[]", "0", "false"};
  for (size_t i = 0; i < bodies.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(JsonFingerprint(bodies[i]), JsonFingerprint(bodies[j]))
          << bodies[i] << " and " << bodies[j];
    }
  }
}

TEST(Fingerprint, TellsAbsentNullAndEmptyMembersApart) {
  EXPECT_NE(JsonFingerprint("{}"), JsonFingerprint(R"({"a":null})"));
  EXPECT_NE(JsonFingerprint(R"({"a":null})"), JsonFingerprint(R"({"a":""})"));
  EXPECT_NE(JsonFingerprint(R"({"a":""})"), JsonFingerprint(R"({"a":{}})"));
  EXPECT_NE(JsonFingerprint(R"({"a":"null"})"), JsonFingerprint(R"({"a":null})"));
}

TEST(Fingerprint, TellsOrderNumbersAbove2To53Apart) {
  EXPECT_NE(JsonFingerprint(R"({"order":9007199254740993})"),
            JsonFingerprint(R"({"order":9007199254740992})"));
  EXPECT_NE(JsonFingerprint(R"({"order":123456789012345678})"),
            JsonFingerprint(R"({"order":123456789012345679})"));
  EXPECT_NE(JsonFingerprint(R"({"order":99999999999999999999999999})"),
            JsonFingerprint(R"({"order":100000000000000000000000000})"));
}

TEST(Fingerprint, RefusesTwoAmountsUnderOneName) {
  EXPECT_THAT(JsonFingerprint(R"({"amount":1,"amount":50000})"), HasSubstr("name twice"));
  EXPECT_THAT(JsonFingerprint(R"({"amount":1,"amo\u0075nt":50000})"), HasSubstr("name twice"));
}

// Two equal purchases under two keys are legal: the fingerprint is the body's alone.
TEST(Fingerprint, OfOneBodyIsTheSameEachTime) {
  const std::string body = R"({"amount":100,"currency":"USD"})";
  EXPECT_EQ(JsonFingerprint(body), JsonFingerprint(body));
}

TEST(Fingerprint, IsTheWholeSha256) {
  EXPECT_EQ(FingerprintHex("text/plain", "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Fingerprint, OfAnEmptyBodyIsTheHashOfNothingWhateverItsType) {
  const std::string nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  for (const char* content_type : {"", kJson, "application/problem+json", "text/plain"}) {
    EXPECT_EQ(FingerprintHex(content_type, ""), nothing) << content_type;
  }
}

TEST(Fingerprint, CanonicalisesJsonTypesInAnySpelling) {
  for (const char* content_type :
       {"application/json", "APPLICATION/Json", "application/json; charset=utf-8",
        "application/json;charset=\"a;b\"", " \tapplication/json ", "application/json ;x",
        "application/problem+json", "Application/Vnd.Api+JSON; v=1", "image/x+json"}) {
    EXPECT_TRUE(IsJsonContentType(content_type)) << content_type;
    EXPECT_EQ(FingerprintHex(content_type, "{\"b\":1, \"a\":2}"), PlainSha256("{\"a\":2,\"b\":1}"))
        << content_type;
  }
}

TEST(Fingerprint, TakesEveryOtherTypeAsItIs) {
  for (const char* content_type :
       {"", ";", "json", "text/json", "application/jsonp", "application/json-seq",
        "application/x-json", "application/json+xml", "application", "application/ json",
        "text/plain; application/json", "text/plain;type=a+json"}) {
    EXPECT_FALSE(IsJsonContentType(content_type)) << content_type;
    EXPECT_EQ(FingerprintHex(content_type, "{\"b\":1, \"a\":2}"), PlainSha256("{\"b\":1, \"a\":2}"))
        << content_type;
  }
}

TEST(Fingerprint, TakesEveryByteOfABinaryBody) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes.push_back(static_cast<char>(i));
  }
  const absl::StatusOr<std::string> canonical = CanonicalBody("application/octet-stream", bytes);
  ASSERT_TRUE(canonical.ok());
  EXPECT_EQ(*canonical, bytes);
  EXPECT_EQ(FingerprintHex("application/octet-stream", bytes), PlainSha256(bytes));
}

// `open`, then as many of `item` as fit a payload, separated by commas, then `close`.
std::string Fill(absl::string_view open, absl::string_view item, absl::string_view close) {
  std::string body(open);
  while (body.size() + item.size() + close.size() < kMaxPayloadBytes) {
    absl::StrAppend(&body, item, ",");
  }
  body.pop_back();
  return absl::StrCat(body, close);
}

std::string ManyMembersInReverse() {
  std::vector<std::string> members;
  for (size_t size = 2; size + 10 < kMaxPayloadBytes; size += members.back().size() + 1) {
    members.push_back(absl::StrCat("\"", absl::Hex(0xfffff - members.size()), "\":1"));
  }
  std::string body = "{";
  for (const std::string& member : members) {
    absl::StrAppend(&body, member, ",");
  }
  body.back() = '}';
  return body;
}

// Every level moves what is below it: the name of the large member sorts last.
std::string LargeAndDeep() {
  std::string body = absl::StrCat("\"", std::string(kMaxPayloadBytes - 2 * kKiB, 'x'), "\"");
  for (int i = 0; i < 64; ++i) {
    body = absl::StrCat("{\"b\":", body, ",\"a\":1}");
  }
  return body;
}

std::string LongNamesThatDifferAtTheEnd() {
  const std::string name(kKiB, 'n');
  std::string body = "{";
  for (int i = 999; i >= 0; --i) {
    absl::StrAppend(&body, "\"", name, 1000 + i, "\":1,");
  }
  body.back() = '}';
  return body;
}

TEST(FingerprintOfHostileBody, IsThatOfItsCanonicalBody) {
  const std::vector<std::pair<const char*, std::string>> bodies = {
      {"a million digits", absl::StrCat("0.", std::string(kMaxPayloadBytes - 2, '3'))},
      {"zeros that an exponent takes back",
       absl::StrCat("1", std::string(1'048'000, '0'), "e-1048000")},
      {"a million zeros", absl::StrCat("0.", std::string(kMaxPayloadBytes - 2, '0'))},
      {"a million exponent digits", absl::StrCat("0e", std::string(kMaxPayloadBytes - 2, '9'))},
      {"numbers that expand fifty times", Fill("[", "3e-324", "]")},
      {"long numbers that expand", Fill("[", "1.2345678901234567890e-300", "]")},
      {"half a million numbers", Fill("[", "1", "]")},
      {"very many fractions", Fill("[", "1.5", "]")},
      {"very many small objects", Fill("[", R"({"b":1,"a":1})", "]")},
      {"very many members", ManyMembersInReverse()},
      {"a large value at every level", LargeAndDeep()},
      {"long names", LongNamesThatDifferAtTheEnd()},
      {"escapes", Fill("[\"", R"(\u0001\ud83d\ude00)", "\"]")},
      {"one string", absl::StrCat("\"", std::string(kMaxPayloadBytes - 2, 'x'), "\"")},
  };
  for (const auto& [name, body] : bodies) {
    SCOPED_TRACE(name);
    EXPECT_LE(body.size(), kMaxPayloadBytes);
    EXPECT_GE(body.size(), kMaxPayloadBytes - 64 * kKiB);
    const absl::StatusOr<std::string> canonical = CanonicalBody(kJson, body);
    if (canonical.ok()) {
      EXPECT_EQ(JsonFingerprint(body), PlainSha256(*canonical));
    } else {
      ADD_FAILURE() << canonical.status();
    }
  }
}

TEST(FingerprintOfHostileBody, IsRefusedWhenItsFaultIsLarge) {
  const std::vector<std::string> bodies = {
      std::string(kMaxPayloadBytes, '1'),
      std::string(kMaxPayloadBytes, '['),
      Fill("", "{\"a\":", ""),
      absl::StrCat("1e", std::string(kMaxPayloadBytes - 2, '9')),
      absl::StrCat("1e-", std::string(kMaxPayloadBytes - 3, '9')),
      absl::StrCat("\"", std::string(kMaxPayloadBytes - 1, 'x')),
      Fill("{", R"("a":1)", "}"),
      std::string(kMaxPayloadBytes, ' '),
  };
  for (const std::string& body : bodies) {
    const absl::Status status = FingerprintOf(kJson, body).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << body.substr(0, 20);
    EXPECT_LT(status.message().size(), 100u) << "the message must not grow with the body";
  }
}

}  // namespace
}  // namespace idempotency
