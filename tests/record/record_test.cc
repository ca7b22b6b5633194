// What is derived from the vocabulary's values: content digests, attempt hashes, identifiers. The
// vectors were made by an independent implementation and never change: they are stored, logged,
// and kept by partners.

#include "server/record/record.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

std::string Hex(const ContentDigest& digest) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

Outcome FullOutcome() {
  Outcome outcome;
  outcome.status_code = 201;
  outcome.headers = {
      {"location", "/orders/1"}, {"set-cookie", "a=1"}, {"set-cookie", std::string("b=\0\xff", 4)}};
  outcome.content_type = "application/json";
  outcome.body = R"({"id":1})";
  outcome.response_id = "resp-1";
  return outcome;
}

Failure FullFailure() {
  Failure failure;
  failure.disposition = Disposition::kFinal;
  failure.code = "declined";
  failure.message = "n\xc3\xb6";
  failure.outcome.emplace();
  failure.outcome->status_code = -1;
  failure.outcome->body_omitted = true;
  failure.outcome->body_size = 5'000'000;
  failure.outcome->body_sha256 =
      absl::HexStringToBytes("2a21fe6d592a19b7de898b50eb53c429608de1a66f3e9f62da19714a770553d1");
  return failure;
}

TEST(DigestOf, MatchesTheVectors) {
  EXPECT_EQ(Hex(DigestOf(FullOutcome())),
            "6e55cf75d5bf4a6480b12b432c58296c8850a7cd32a44b5ab88b12aec93813b8");
  EXPECT_EQ(Hex(DigestOf(Outcome{})),
            "61a5b878a18fd7cd791c9404f0f9a650a963f4d5a288f5e7b0059181196e8eb0");
  EXPECT_EQ(Hex(DigestOf(FullFailure())),
            "308e85fbcd7d0586a0d8724ba43c8cf58c07ec22aa8cf871efa1128669d9b348");
}

// Each change makes a content of its own; so no two of them, nor the original, share a digest.
TEST(DigestOf, TellsOutcomesApartByEveryField) {
  using Change = void (*)(Outcome&);
  const std::vector<Change> changes = {
      [](Outcome&) {},
      [](Outcome& o) { o.status_code = 200; },
      [](Outcome& o) { o.status_code = -201; },
      [](Outcome& o) { o.status_code = std::numeric_limits<int32_t>::min(); },
      [](Outcome& o) { o.headers.clear(); },
      [](Outcome& o) { o.headers[0].name = "Location"; },
      [](Outcome& o) { o.headers[0].value = "/orders/2"; },
      [](Outcome& o) {
        o.headers.push_back({"x", ""});
      },
      // Order.
      [](Outcome& o) { std::swap(o.headers[0], o.headers[1]); },
      [](Outcome& o) { std::swap(o.headers[1], o.headers[2]); },
      // Merged, and split at another place.
      [](Outcome& o) {
        o.headers[1].value += ", " + o.headers[2].value;
        o.headers.pop_back();
      },
      [](Outcome& o) {
        o.headers[0] = {"location/", "orders/1"};
      },
      [](Outcome& o) { o.content_type = "text/plain"; },
      [](Outcome& o) { o.body = "{}"; },
      [](Outcome& o) { o.body = ""; },
      [](Outcome& o) { o.body.reset(); },
      [](Outcome& o) { o.body->push_back('\0'); },
      [](Outcome& o) { o.response_id = "resp-2"; },
      [](Outcome& o) { o.body_omitted = true; },
      [](Outcome& o) { o.body_size = 0; },
      [](Outcome& o) { o.body_size = 8; },
      [](Outcome& o) { o.body_sha256 = std::string(32, '\0'); },
      // Bytes that move from one field to the next.
      [](Outcome& o) {
        o.content_type += (*o.body)[0];
        o.body->erase(0, 1);
      },
      [](Outcome& o) {
        o.body_sha256 = o.response_id;
        o.response_id.clear();
      },
  };
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < changes.size(); ++i) {
    Outcome outcome = FullOutcome();
    changes[i](outcome);
    const auto [first, is_new] = seen.emplace(Hex(DigestOf(outcome)), i);
    EXPECT_TRUE(is_new) << "changes " << first->second << " and " << i << " have one digest";
  }
}

TEST(DigestOf, TellsFailuresApartByEveryField) {
  using Change = void (*)(Failure&);
  const std::vector<Change> changes = {
      [](Failure&) {},
      [](Failure& f) { f.disposition = Disposition::kNotApplied; },
      [](Failure& f) { f.disposition = Disposition::kUnknown; },
      [](Failure& f) { f.code = ""; },
      [](Failure& f) { f.message = ""; },
      [](Failure& f) { std::swap(f.code, f.message); },
      [](Failure& f) { f.outcome.reset(); },
      [](Failure& f) { f.outcome = Outcome{}; },
      [](Failure& f) { f.outcome->status_code = 500; },
      [](Failure& f) { f.outcome->body_size = 5'000'001; },
  };
  std::set<std::string> seen;
  for (const Change& change : changes) {
    Failure failure = FullFailure();
    change(failure);
    seen.insert(Hex(DigestOf(failure)));
  }
  EXPECT_EQ(seen.size(), changes.size());
}

TEST(DigestOf, TellsAnOutcomeFromAFailureWithThatOutcome) {
  Failure failure;
  failure.outcome = FullOutcome();
  EXPECT_NE(DigestOf(failure), DigestOf(FullOutcome()));
}

TEST(HashAttemptId, IsTheFirstHalfOfTheSha256) {
  const auto hex = [](absl::string_view id) {
    const AttemptHash hash = HashAttemptId(id);
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()));
  };
  EXPECT_EQ(hex("8f14e45f-ceea-467f-a1d4-0c7d2d1c6a3b"), "63b0b41979bbd7c47363dc419da01628");
  EXPECT_EQ(hex("aaaaaaaaaaaaaaaa"), "0c0beacef8877bbf2416eb00f2b5dc96");
}

TEST(RecordKey, OrdersBytewiseByMerchantThenKey) {
  EXPECT_LT((RecordKey{"A", "z"}), (RecordKey{"_", "a"}));
  EXPECT_LT((RecordKey{"_", "z"}), (RecordKey{"a", "a"}));
  EXPECT_LT((RecordKey{"a", "B"}), (RecordKey{"a", "_"}));
  EXPECT_LT((RecordKey{"a", "key"}), (RecordKey{"a", "key "}));
}

TEST(StateAfter, FollowsTheKindAndTheDisposition) {
  EXPECT_EQ(StateAfter(Outcome{}), RecordState::kCompleted);
  Failure failure;
  failure.disposition = Disposition::kNotApplied;
  EXPECT_EQ(StateAfter(failure), RecordState::kReleased);
  failure.disposition = Disposition::kFinal;
  EXPECT_EQ(StateAfter(failure), RecordState::kFailedFinal);
  failure.disposition = Disposition::kUnknown;
  EXPECT_EQ(StateAfter(failure), RecordState::kFailedUnknown);
}

struct IdVector {
  RecordKey key;
  int64_t created_us;
  const char* record_id;
  const char* downstream_key;
};

TEST(RecordId, MatchesTheVectors) {
  const std::vector<IdVector> vectors = {
      {{"m1", "order-1"},
       1767225600000000,
       "019b76da-a800-83a2-8968-90b714ce26b7",
       "32567713-5144-5530-9ac2-f37d33f6dfd0"},
      // A microsecond later, within the same millisecond.
      {{"m1", "order-1"},
       1767225600000001,
       "019b76da-a800-80bd-a7d7-df7f1db3366a",
       "061b71cd-6c67-5ad7-8dcd-dd6ab56afcbd"},
      // The same bytes, split elsewhere.
      {{"m1o", "rder-1"},
       1767225600000000,
       "019b76da-a800-8fbb-aba1-ecb631769c15",
       "8ed0346d-f472-5c2e-b0fa-a9a7aa429719"},
      {{"m2", "order-1"},
       1767225600000000,
       "019b76da-a800-8653-b185-2457bd1932ae",
       "54da9c20-6ae2-582b-ad9d-df182405d596"},
      {{"acme.eu:prod-1_2", " \"quoted\\\" {NULL}, 100%"},
       1800000000123457,
       "01a3185c-507b-8d48-8b68-2ccea58a67cd",
       "9ebede56-f24c-518e-a2e5-81b7234fd50b"},
      {{"m", std::string(255, 'k')},
       4102444799999999,
       "03bb2cc3-d7ff-8d9e-8c40-c978f1e98ac0",
       "6e2a9352-0ccb-5432-90d4-6584f97be3a7"},
  };
  for (const IdVector& vector : vectors) {
    const Uuid id = RecordIdOf(vector.key, absl::FromUnixMicros(vector.created_us));
    EXPECT_EQ(UuidText(id), vector.record_id);
    EXPECT_EQ(UuidText(DownstreamKeyOf(id)), vector.downstream_key);
  }
}

TEST(RandomUuidText, IsAVersion4UuidAndNewEachTime) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = RandomUuidText();
    ASSERT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(std::string("89ab").find(uuid[19]), std::string::npos);
    EXPECT_EQ(uuid.find_first_not_of("0123456789abcdef-"), std::string::npos);
    seen.insert(uuid);
  }
  EXPECT_EQ(seen.size(), 100u);
}

}  // namespace
}  // namespace idempotency
