// What goes in comes out: outcomes, labels and keys, byte for byte.

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "server/record/limit.h"
#include "tests/store/store_conformance.h"

namespace idempotency {
namespace {

const char kKey[] = "order-1";

// A body of pseudo-random bytes, so that no compression helps.
std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

std::string EveryByte() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

// Records each answer under a key of its own, and expects it back from a replay and from Lookup.
class ContentConformance : public StoreConformance {
 protected:
  void ExpectSameOnReplay(const Answer& answer) {
    const std::string key = absl::StrCat("order-", ++keys_);
    SCOPED_TRACE(Describe(answer));
    Begin(key, 1);
    EXPECT_EQ(Call(Answered(Key(key), 1, answer)).verdict, OwnerVerdict::kRecorded);
    const BeginResult replay = Begin(key, 2);
    EXPECT_EQ(replay.verdict, BeginVerdict::kReplay);
    ASSERT_NE(replay.record->answer, nullptr);
    EXPECT_EQ(*replay.record->answer, answer);
    EXPECT_EQ(Call(Answered(Key(key), 1, answer)).verdict, OwnerVerdict::kAlreadyRecorded);
  }

  static Outcome WithBody(std::optional<std::string> body) {
    Outcome outcome;
    outcome.status_code = 200;
    outcome.body = std::move(body);
    return outcome;
  }

 private:
  int keys_ = 0;
};

TEST_P(ContentConformance, FalseLookingBodiesAreResults) {
  for (const char* body : {"", "0", "\"\"", "[]", "{}", "null", "false", " "}) {
    ExpectSameOnReplay(WithBody(body));
  }
  ExpectSameOnReplay(WithBody(std::nullopt));
}

TEST_P(ContentConformance, OutcomeWithNothingInItIsAResult) { ExpectSameOnReplay(Outcome{}); }

TEST_P(ContentConformance, AbsentAndEmptyBodyAreOtherContent) {
  Begin(kKey, 1);
  Complete(kKey, 1, WithBody(""));
  EXPECT_EQ(Complete(kKey, 1, WithBody(std::nullopt)).verdict, OwnerVerdict::kOutcomeConflict);
}

TEST_P(ContentConformance, BinaryBodiesStayAsTheyAre) {
  ExpectSameOnReplay(WithBody(EveryByte()));
  ExpectSameOnReplay(WithBody(std::string(1, '\0')));
  ExpectSameOnReplay(WithBody(std::string("a\0b\0", 4)));
  ExpectSameOnReplay(WithBody("\xff\xfe\xc3\x28 \\x00 \\000 E'\\\\'"));
}

TEST_P(ContentConformance, LargestBodyStaysAsItIs) {
  ExpectSameOnReplay(WithBody(Bytes(kMaxOutcomeBodyBytes)));
  ExpectSameOnReplay(WithBody(std::string(kMaxOutcomeBodyBytes, ' ')));
}

TEST_P(ContentConformance, OmittedBodySaysSo) {
  Outcome outcome = WithBody(std::nullopt);
  outcome.body_omitted = true;
  outcome.body_size = int64_t{100} * 1024 * 1024;
  outcome.body_sha256 = Bytes(kDigestBytes);
  ExpectSameOnReplay(outcome);
  outcome.body_size = 0;
  ExpectSameOnReplay(outcome);
}

TEST_P(ContentConformance, EveryStatusCodeComesBack) {
  for (const int32_t code : {std::numeric_limits<int32_t>::min(),
                             -1,
                             0,
                             1,
                             99,
                             199,
                             200,
                             201,
                             204,
                             301,
                             304,
                             400,
                             402,
                             409,
                             422,
                             429,
                             500,
                             503,
                             599,
                             600,
                             std::numeric_limits<int32_t>::max()}) {
    Outcome outcome;
    outcome.status_code = code;
    ExpectSameOnReplay(outcome);
  }
}

TEST_P(ContentConformance, HeadersKeepOrderRepeatsAndBytes) {
  Outcome outcome = WithBody("{}");
  outcome.headers = {{"Location", "/orders/1"},     {"set-cookie", "a=1; Path=/"},
                     {"content-encoding", "gzip"},  {"Set-Cookie", "b=2, c=3"},
                     {"set-cookie", "a=1; Path=/"}, {"x-empty", ""},
                     {"x-bytes", EveryByte()}};
  ExpectSameOnReplay(outcome);
}

TEST_P(ContentConformance, MostAndLongestHeadersComeBack) {
  Outcome outcome;
  for (size_t i = 0; i < kMaxHeaders; ++i) {
    outcome.headers.push_back({std::string(kMaxHeaderNameBytes, 'n'), Bytes(128)});
  }
  outcome.content_type = std::string(kMaxContentTypeBytes, 't');
  outcome.response_id = std::string(kMaxResponseIdBytes, 'r');
  ExpectSameOnReplay(outcome);
}

TEST_P(ContentConformance, FinalFailuresComeBack) {
  Failure failure;
  failure.disposition = Disposition::kFinal;
  ExpectSameOnReplay(failure);
  failure.code = std::string(kMaxFailureCodeBytes, 'c');
  // Two bytes a character: cut anywhere, it would be no text.
  for (size_t i = 0; i < kMaxFailureMessageBytes / 2; ++i) failure.message += "\xc3\xa9";
  ExpectSameOnReplay(failure);
  failure.outcome = Outcome{};
  ExpectSameOnReplay(failure);
  failure.outcome = WithBody(EveryByte());
  failure.outcome->status_code = 402;
  ExpectSameOnReplay(failure);
}

TEST_P(ContentConformance, FailureWithoutAndWithAnEmptyOutcomeAreOtherContent) {
  Failure failure = Failed(Disposition::kFinal);
  Begin(kKey, 1);
  Fail(kKey, 1, failure);
  failure.outcome = Outcome{};
  EXPECT_EQ(Fail(kKey, 1, failure).verdict, OwnerVerdict::kOutcomeConflict);
}

TEST_P(ContentConformance, OutcomeOfAnUnknownFailureIsToldToTheNextAttempt) {
  Failure failure = Failed(Disposition::kUnknown);
  failure.outcome = WithBody(EveryByte());
  Begin(kKey, 1);
  Fail(kKey, 1, failure);
  EXPECT_EQ(Begin(kKey, 2).record->previous_attempt->failure, failure);
}

TEST_P(ContentConformance, LabelsComeBack) {
  BeginItem item = Request(kKey, 1);
  for (size_t i = 0; i + 3 < kMaxLabels; ++i) {
    item.labels[absl::StrCat("label-", i)] = absl::StrCat("value ", i);
  }
  item.labels["empty"] = "";
  item.labels[std::string(kMaxLabelNameBytes, 'n')] = std::string(kMaxLabelValueBytes, 'v');
  item.labels["\xc3\xa9"] = "{\"a\", NULL} \xe2\x82\xac";
  EXPECT_EQ(Begin(item).record->labels, item.labels);
  EXPECT_EQ(Begin(kKey, 2).record->labels, item.labels);
}

TEST_P(ContentConformance, LongestTermsComeBack) {
  BeginItem item = Request(kKey, 1);
  item.ttl = absl::Hours(24 * 30);
  item.lease_duration = absl::Hours(1);
  item.operation = std::string(kMaxOperationBytes, 'o');
  const BeginResult first = Begin(item);
  EXPECT_EQ(first.record->ttl, item.ttl);
  EXPECT_EQ(first.record->lease_expires_at, Now() + absl::Hours(1));
}

TEST_P(ContentConformance, ShortestTermsComeBack) {
  BeginItem item = Request(kKey, 1);
  item.ttl = absl::Minutes(1);
  item.lease_duration = absl::Milliseconds(1001);
  const BeginResult first = Begin(item);
  EXPECT_EQ(first.record->ttl, absl::Minutes(1));
  EXPECT_EQ(first.record->lease_expires_at, Now() + absl::Milliseconds(1001));
}

// Every key is a record of its own, found under its own bytes: nothing of it is quoted, trimmed,
// folded, matched as a pattern, read as a list or as a null.
TEST_P(ContentConformance, KeysAreTheirBytes) {
  std::string printable;
  for (char c = 0x20; c < 0x7f; ++c) printable.push_back(c);
  const std::vector<std::string> keys = {"k",
                                         "K",
                                         " k",
                                         "k ",
                                         "k  ",
                                         " ",
                                         "  ",
                                         "'",
                                         "''",
                                         "\"",
                                         "\"\"",
                                         "\\",
                                         "\\\\",
                                         "%",
                                         "k%",
                                         "_",
                                         "__",
                                         ",",
                                         "a,b",
                                         "{",
                                         "}",
                                         "{}",
                                         "{a,b}",
                                         "{\"a\"}",
                                         "NULL",
                                         "null",
                                         "\"NULL\"",
                                         "$1",
                                         "?",
                                         ";--",
                                         "'; DROP TABLE idempotency_record; --",
                                         "\\x00",
                                         "\\000",
                                         "%00",
                                         "0",
                                         "-1",
                                         "1e3",
                                         "(a,b)",
                                         "[1]",
                                         "a/b",
                                         "a:b",
                                         "a|b",
                                         printable,
                                         std::string(255, 'k'),
                                         std::string(254, 'k'),
                                         std::string(255, '\\'),
                                         std::string(255, '"')};
  std::vector<std::string> merchants = {
      "m1", "M1", "m.1", "m_1", "m:1", "m-1", std::string(kMaxMerchantIdBytes, 'm')};
  for (const std::string& merchant : merchants) {
    for (const std::string& key : keys) {
      BeginItem item = Request(RecordKey{merchant, key}, 1);
      item.labels = {{"key", key}};
      ASSERT_EQ(Begin(item).verdict, BeginVerdict::kStarted) << merchant << " " << key;
    }
  }
  for (const std::string& merchant : merchants) {
    for (const std::string& key : keys) {
      const auto record = Lookup(RecordKey{merchant, key});
      ASSERT_NE(record, nullptr) << merchant << " " << key;
      EXPECT_EQ(record->key, (RecordKey{merchant, key}));
      EXPECT_EQ(record->labels.at("key"), key);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContentConformance, ::testing::ValuesIn(StoreImplementations()),
                         ImplementationName);

}  // namespace
}  // namespace idempotency
