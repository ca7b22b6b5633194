#include "server/engine/fair_calls.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/call_util.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const CallTerms kTerms = {.deadline = absl::Hours(2)};
constexpr size_t kAll = 1000;

class FairCallsTest : public testing::Test {
 protected:
  void AddBegin(absl::string_view merchant, absl::string_view key, int attempt = 1) {
    BeginItem item = BeginOf(key, attempt);
    item.key = Key(key, merchant);
    calls_.Add(MakeBegin(std::move(item), kTerms));
  }
  void AddLookup(absl::string_view merchant, absl::string_view key) {
    auto call = MakeLookup(key, kTerms);
    call->item.key = Key(key, merchant);
    calls_.Add(std::move(call));
  }
  // Each as "merchant/key".
  std::vector<std::string> TakeBegins(size_t max_keys) { return Take<BeginCall>(max_keys); }
  std::vector<std::string> TakeLookups(size_t max_keys) { return Take<LookupCall>(max_keys); }
  template <typename Call>
  std::vector<std::string> Take(size_t max_keys) {
    std::vector<std::unique_ptr<Call>> taken;
    calls_.Take(max_keys, &taken);
    return Names(taken);
  }
  template <typename Call>
  static std::vector<std::string> Names(const std::vector<std::unique_ptr<Call>>& calls) {
    std::vector<std::string> names;
    for (const auto& call : calls) {
      names.push_back(call->item.key.merchant_id + "/" + call->item.key.idempotency_key);
    }
    return names;
  }

  FairCalls calls_;
};

TEST_F(FairCallsTest, OneMerchantsCallsKeepTheirOrder) {
  for (const char* key : {"3", "1", "2"}) AddBegin("a", key);
  EXPECT_THAT(TakeBegins(kAll), ElementsAre("a/3", "a/1", "a/2"));
  EXPECT_TRUE(calls_.empty());
}

TEST_F(FairCallsTest, MerchantsTakeTurns) {
  for (const char* key : {"1", "2", "3"}) AddBegin("a", key);
  AddBegin("b", "1");
  AddBegin("c", "1");
  AddBegin("b", "2");
  EXPECT_THAT(TakeBegins(kAll), ElementsAre("a/1", "b/1", "c/1", "a/2", "b/2", "a/3"));
}

TEST_F(FairCallsTest, NewcomerIsNextBehindEachOthersFirst) {
  for (int i = 0; i < 100; ++i) AddBegin("flood", std::to_string(i));
  AddBegin("b", "1");
  EXPECT_THAT(TakeBegins(2), ElementsAre("flood/0", "b/1"));
}

TEST_F(FairCallsTest, TurnsGoOnWhereTheyStopped) {
  for (const char* key : {"1", "2"}) {
    for (const char* merchant : {"a", "b", "c"}) AddBegin(merchant, key);
  }
  EXPECT_THAT(TakeBegins(2), ElementsAre("a/1", "b/1"));
  EXPECT_THAT(TakeBegins(2), ElementsAre("c/1", "a/2"));
  EXPECT_THAT(TakeBegins(2), ElementsAre("b/2", "c/2"));
}

TEST_F(FairCallsTest, FurtherCallsOfATakenKeyComeAlong) {
  AddBegin("a", "1", 1);
  AddBegin("a", "1", 2);
  AddBegin("a", "2");
  AddBegin("a", "1", 3);
  AddBegin("a", "3");
  EXPECT_THAT(TakeBegins(2), ElementsAre("a/1", "a/1", "a/2", "a/1"));
  EXPECT_THAT(TakeBegins(2), ElementsAre("a/3"));
}

TEST_F(FairCallsTest, NoKeysTakesNothing) {
  AddBegin("a", "1");
  EXPECT_THAT(TakeBegins(0), IsEmpty());
  EXPECT_EQ(calls_.size<BeginCall>(), 1u);
}

TEST_F(FairCallsTest, BeginsAndLookupsHaveTurnsOfTheirOwn) {
  AddLookup("a", "1");
  AddBegin("a", "2");
  AddLookup("b", "3");
  EXPECT_THAT(TakeLookups(kAll), ElementsAre("a/1", "b/3"));
  EXPECT_THAT(TakeBegins(kAll), ElementsAre("a/2"));
}

TEST_F(FairCallsTest, ShedsTheNewestOfTheMerchantThatHasMost) {
  for (const char* key : {"1", "2", "3"}) AddBegin("a", key);
  for (const char* key : {"1", "2", "3", "4"}) AddBegin("b", key);
  ShedCalls shed;
  EXPECT_GT(calls_.ShedFor("c", &shed), 0u);
  EXPECT_THAT(Names(shed.begins), ElementsAre("b/4"));
  EXPECT_THAT(TakeBegins(kAll), ElementsAre("a/1", "b/1", "a/2", "b/2", "a/3", "b/3"));
}

TEST_F(FairCallsTest, ShedsUntilNobodyHasTwoMore) {
  for (const char* key : {"1", "2", "3"}) AddBegin("a", key);
  AddBegin("b", "1");
  ShedCalls shed;
  EXPECT_GT(calls_.ShedFor("b", &shed), 0u);
  EXPECT_EQ(calls_.ShedFor("b", &shed), 0u);
  EXPECT_GT(calls_.ShedFor("c", &shed), 0u);
  EXPECT_EQ(calls_.ShedFor("c", &shed), 0u);
  EXPECT_THAT(Names(shed.begins), ElementsAre("a/3", "a/2"));
}

TEST_F(FairCallsTest, NeverShedsForTheMerchantThatHasMost) {
  for (int i = 0; i < 100; ++i) AddBegin("a", std::to_string(i));
  AddBegin("b", "1");
  ShedCalls shed;
  EXPECT_EQ(calls_.ShedFor("a", &shed), 0u);
}

TEST_F(FairCallsTest, NothingIsShedOfNothing) {
  ShedCalls shed;
  EXPECT_EQ(calls_.ShedFor("a", &shed), 0u);
}

TEST_F(FairCallsTest, BeginsAndLookupsCountTogetherWhenShedding) {
  for (const char* key : {"1", "2", "3"}) AddBegin("a", key);
  for (const char* key : {"1", "2"}) AddBegin("b", key);
  for (const char* key : {"3", "4"}) AddLookup("b", key);
  ShedCalls shed;
  calls_.ShedFor("c", &shed);
  EXPECT_THAT(Names(shed.lookups), ElementsAre("b/4"));
  EXPECT_THAT(Names(shed.begins), IsEmpty());
}

TEST_F(FairCallsTest, ShedTellsTheBytesOfTheCall) {
  for (const char* key : {"1", "2"}) AddBegin("a", key);
  ShedCalls shed;
  const size_t bytes = calls_.ShedFor("b", &shed);
  EXPECT_EQ(bytes, shed.begins.front()->bytes);
}

TEST_F(FairCallsTest, PutBackRestoresTheOrder) {
  for (const char* key : {"1", "2", "3", "4"}) AddBegin("a", key);
  ShedCalls shed;
  for (int i = 0; i < 3; ++i) calls_.ShedFor("b", &shed);
  calls_.PutBack(&shed);
  EXPECT_THAT(Names(shed.begins), IsEmpty());
  EXPECT_THAT(TakeBegins(kAll), ElementsAre("a/1", "a/2", "a/3", "a/4"));
}

TEST_F(FairCallsTest, MerchantWhoseCallsOfAKindWereShedLosesItsTurn) {
  for (const char* key : {"1", "2"}) AddLookup("a", key);
  ShedCalls shed;
  calls_.ShedFor("b", &shed);
  AddBegin("a", "3");
  AddBegin("a", "4");
  calls_.ShedFor("b", &shed);
  calls_.ShedFor("b", &shed);
  AddLookup("c", "1");
  const std::vector<std::string> lookups = TakeLookups(kAll);
  EXPECT_EQ(lookups.back(), "c/1");
  EXPECT_EQ(lookups.size() + calls_.size<BeginCall>(), 2u);
}

// As a reference: what is taken and shed, counted another way.
TEST_F(FairCallsTest, CountsStayRightOverRandomUse) {
  uint32_t random = 20'261'130;
  const auto next = [&random](uint32_t below) {
    random = random * 1'664'525 + 1'013'904'223;
    return (random >> 8) % below;
  };
  std::map<std::string, size_t> held;
  size_t total = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::string merchant = "m" + std::to_string(next(200));
    switch (next(4)) {
      case 0:
        AddBegin(merchant, std::to_string(step));
        ++held[merchant];
        ++total;
        break;
      case 1:
        AddLookup(merchant, std::to_string(step));
        ++held[merchant];
        ++total;
        break;
      case 2: {
        size_t most = 0;
        for (const auto& [name, count] : held) most = std::max(most, count);
        ShedCalls shed;
        const bool is_shed = calls_.ShedFor(merchant, &shed) > 0;
        ASSERT_EQ(is_shed, most >= held[merchant] + 2);
        if (!is_shed) break;
        const std::string victim = shed.begins.empty() ? shed.lookups[0]->item.key.merchant_id
                                                       : shed.begins[0]->item.key.merchant_id;
        ASSERT_EQ(held[victim], most);
        --held[victim];
        --total;
        break;
      }
      case 3: {
        std::vector<std::unique_ptr<BeginCall>> begins;
        calls_.Take(next(3), &begins);
        std::vector<std::unique_ptr<LookupCall>> lookups;
        calls_.Take(next(3), &lookups);
        for (const auto& call : begins) --held[call->item.key.merchant_id];
        for (const auto& call : lookups) --held[call->item.key.merchant_id];
        total -= begins.size() + lookups.size();
        break;
      }
    }
    ASSERT_EQ(calls_.size<BeginCall>() + calls_.size<LookupCall>(), total);
  }
}

}  // namespace
}  // namespace idempotency
