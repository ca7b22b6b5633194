// Random sequences of calls run against PostgreSQL and the reference model side by side, with the
// same standing clock: every result and every stored record must be equal, field by field.
//
// The seed is printed. IDEMPOTENCY_TEST_SEED=n repeats a sequence.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/store/postgres_subject.h"
#include "tests/store/random_call.h"
#include "tests/util/describe.h"
#include "tests/util/model_store.h"

namespace idempotency {
namespace {

constexpr int kOperations = 60'000;

// Spans that let every instant of the rules come up in a sequence of a few thousand steps.
Policy ShortPolicy() {
  Policy policy;
  policy.skew_margin = absl::Seconds(2);
  policy.replay_window = absl::Seconds(100);
  policy.takeover_window = absl::Seconds(90);
  policy.shortest_lease = absl::Seconds(1);
  return policy;
}

uint64_t Seed() {
  uint64_t seed = 0;
  const char* given = std::getenv("IDEMPOTENCY_TEST_SEED");
  if (given != nullptr && absl::SimpleAtoi(given, &seed)) return seed;
  return std::random_device()();
}

std::string Asked(const BeginItem& item) {
  return absl::StrCat("Begin", item.hold ? " HOLD" : "", " ", item.operation, " fingerprint ",
                      item.fingerprint[0], " lease ", absl::FormatDuration(item.lease_duration),
                      " ttl ", absl::FormatDuration(item.ttl));
}

std::string Asked(const OwnerItem& item) {
  if (item.IsRenew()) return absl::StrCat("Renew ", absl::FormatDuration(item.lease_duration));
  return Describe(*item.answer);
}

std::string Told(const Reading& reading) {
  return absl::StrCat("read at ", absl::FormatTime(reading.now), ", last jump ",
                      absl::FormatTime(reading.last_jump_at), ", offset ", reading.token_offset_us);
}

std::string Told(const BeginResult& result) {
  return absl::StrCat(Describe(result.verdict), result.repeated ? " repeated" : "",
                      result.wrote_attempt ? " written" : "", "\n", Told(result.reading), "\n",
                      Describe(result.record.get()));
}

std::string Told(const OwnerResult& result) {
  const bool wrote =
      result.verdict == OwnerVerdict::kRecorded || result.verdict == OwnerVerdict::kRenewed;
  return absl::StrCat(Describe(result.verdict), "\nread at ", absl::FormatTime(result.reading.now),
                      "\n",
                      wrote ? DescribeAfterWrite(*result.record) : Describe(result.record.get()));
}

std::string Told(const LookupResult& result) {
  return absl::StrCat(Told(result.reading), "\n", Describe(result.record.get()));
}

std::string Told(const ClockState& state) {
  return absl::StrCat(absl::FormatTime(state.now), ", written ",
                      absl::FormatTime(state.guard.reading), ", last jump ",
                      static_cast<int>(state.last_jump), " ",
                      absl::FormatTime(state.guard.last_jump_at), ", offset ",
                      state.guard.token_offset_us, state.is_same_history ? "" : ", other history");
}

std::string Told(bool kept) { return kept ? "kept" : "not kept"; }

template <typename Result>
std::string Told(const absl::StatusOr<Result>& result) {
  return result.ok() ? Told(*result) : result.status().ToString();
}

std::string Told(std::vector<SweptRecord> records) {
  std::sort(records.begin(), records.end(),
            [](const SweptRecord& a, const SweptRecord& b) { return a.key < b.key; });
  std::string text;
  for (const SweptRecord& record : records) {
    absl::StrAppend(&text, record.key.merchant_id, "/", record.key.idempotency_key, " ",
                    absl::FormatTime(record.created_at), " ", record.attempt_number, " ",
                    Describe(record.state), "\n");
  }
  return text;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Short(const AttemptHash& attempt) { return absl::StrCat(attempt.bytes[0]); }

class RandomSequence : public ::testing::Test {
 protected:
  RandomSequence()
      : seed_(Seed()),
        policy_(ShortPolicy()),
        subject_(policy_),
        model_(policy_, subject_.Now()),
        model_store_(&model_),
        calls_(seed_, policy_, &model_) {
    // Two connections, so that what one wrote the other reads.
    for (int i = 0; i < 2; ++i) postgres_.push_back(subject_.Connect());
    std::cout << "IDEMPOTENCY_TEST_SEED=" << seed_ << std::endl;
  }

  Store& postgres() { return *postgres_[static_cast<size_t>(step_) % postgres_.size()]; }

  void Compare(const RecordKey& key, const std::string& call, const std::string& from_postgres,
               const std::string& from_model) {
    std::string& history = history_[key];
    absl::StrAppend(&history, "step ", step_, " at ", absl::FormatTime(model_.Now()), ": ", call,
                    " -> ", FirstLine(from_model), "\n");
    if (from_postgres == from_model) return;
    ADD_FAILURE() << "seed " << seed_ << ", step " << step_ << ", key " << key.merchant_id << "/"
                  << key.idempotency_key << "\n--- PostgreSQL\n"
                  << from_postgres << "\n--- model\n"
                  << from_model << "\n--- the key's history\n"
                  << history;
  }

  template <typename Item, typename Result>
  void CompareAll(const std::vector<Item>& items, const BatchResults<Result>& from_postgres,
                  const BatchResults<Result>& from_model,
                  const std::function<std::string(const Item&)>& call) {
    ASSERT_EQ(from_postgres.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      Compare(items[i].key, call(items[i]), Told(from_postgres[i]), Told(from_model[i]));
    }
    operations_ += static_cast<int>(items.size());
  }

  void StepBegin() {
    const std::vector<BeginItem> items = calls_.Begins();
    const auto from_postgres = postgres().BeginBatch(PointersTo(items));
    const auto from_model = model_store_.BeginBatch(PointersTo(items));
    for (const auto& result : from_model) ++verdicts_["Begin " + FirstLine(Told(result))];
    CompareAll<BeginItem, BeginResult>(items, from_postgres, from_model, [](const BeginItem& item) {
      return absl::StrCat(Asked(item), " by ", Short(item.attempt));
    });
  }

  void StepOwner() {
    const std::vector<OwnerItem> items = calls_.OwnerCalls();
    const auto from_postgres = postgres().OwnerBatch(PointersTo(items));
    const auto from_model = model_store_.OwnerBatch(PointersTo(items));
    for (size_t i = 0; i < items.size(); ++i) {
      ++verdicts_[(items[i].IsRenew() ? "Renew " : "Finish ") + FirstLine(Told(from_model[i]))];
    }
    const auto call = [](const OwnerItem& item) {
      return absl::StrCat(Asked(item), " by ", Short(item.attempt));
    };
    CompareAll<OwnerItem, OwnerResult>(items, from_postgres, from_model, call);

    // What was refused is kept, as the engine would have it kept.
    std::vector<OwnerItem> refused;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].IsRenew() || !from_model[i].ok()) continue;
      const OwnerVerdict verdict = from_model[i]->verdict;
      if (verdict == OwnerVerdict::kLeaseLost || verdict == OwnerVerdict::kOutcomeConflict ||
          verdict == OwnerVerdict::kRecordNotFound) {
        refused.push_back(items[i]);
      }
    }
    const auto kept_by_postgres = postgres().KeepRefusedBatch(PointersTo(refused));
    const auto kept_by_model = model_store_.KeepRefusedBatch(PointersTo(refused));
    CompareAll<OwnerItem, bool>(refused, kept_by_postgres, kept_by_model,
                                [&](const OwnerItem& item) { return "keep: " + call(item); });
  }

  void StepLookup(const std::vector<LookupItem>& items) {
    const auto from_postgres = postgres().LookupBatch(PointersTo(items));
    const auto from_model = model_store_.LookupBatch(PointersTo(items));
    CompareAll<LookupItem, LookupResult>(items, from_postgres, from_model,
                                         [](const LookupItem&) { return "Lookup"; });
  }

  void StepMaintenance() {
    const BlockRange all = {0, *postgres().CountBlocks()};
    const BlockRange whole_model = {0, 1};
    const std::string at = absl::StrCat("seed ", seed_, ", step ", step_);
    if (calls_.Chance(50)) {
      const absl::Duration grace = absl::Seconds(calls_.Below(3) * 5);
      const auto swept = model_store_.SweepStep(whole_model, grace);
      verdicts_["swept"] += static_cast<int>(swept->size());
      EXPECT_EQ(Told(*postgres().SweepStep(all, grace)), Told(*swept)) << at;
    } else if (calls_.Chance(60)) {
      const int64_t purged = *model_store_.PurgeStep(whole_model);
      verdicts_["purged"] += static_cast<int>(purged);
      EXPECT_EQ(*postgres().PurgeStep(all), purged) << at;
    } else {
      const absl::Duration age = absl::Seconds(95);
      const auto purged = model_store_.PurgeUnsettledStep(whole_model, age);
      verdicts_["purged unsettled"] += static_cast<int>(purged->size());
      EXPECT_EQ(Told(*postgres().PurgeUnsettledStep(all, age)), Told(*purged)) << at;
    }
    for (auto& [key, history] : history_) absl::StrAppend(&history, "step ", step_, ": upkeep\n");
  }

  // Both rows of the clock guard, as a replica writes them now.
  void StepWatch() {
    const bool saw_drift = calls_.Chance(10);
    const auto from_postgres = postgres().RefreshClock(saw_drift);
    const auto from_model = model_store_.RefreshClock(saw_drift);
    ASSERT_TRUE(from_postgres.ok()) << from_postgres.status();
    EXPECT_EQ(Told(*from_postgres), Told(*from_model)) << "seed " << seed_ << ", step " << step_;
    if (from_model->guard.last_jump_at == from_model->now) {
      ++verdicts_[absl::StrCat("jump ", static_cast<int>(from_model->last_jump))];
    }
    is_unnoticed_ = false;
  }

  void StepJump() {
    const absl::Duration by = calls_.Jump();
    model_.JumpClock(by);
    subject_.JumpClock(by);
    is_unnoticed_ = true;
    for (auto& [key, history] : history_) {
      absl::StrAppend(&history, "step ", step_, ": the clock jumps by ", absl::FormatDuration(by),
                      "\n");
    }
  }

  void StepClock() {
    if (calls_.Chance(4)) return StepJump();
    if (is_unnoticed_ || calls_.Chance(2)) StepWatch();
    const absl::Time instant = calls_.NextInstant();
    model_.SetClock(instant);
    subject_.AdvanceClock(instant - subject_.Now());
  }

  const uint64_t seed_;
  const Policy policy_;
  PostgresSubject subject_;
  std::vector<std::unique_ptr<Store>> postgres_;
  ModelDatabase model_;
  ModelStore model_store_;
  RandomCalls calls_;

  bool is_unnoticed_ = false;  // a jump of the clock
  int step_ = 0;
  int operations_ = 0;
  std::map<RecordKey, std::string> history_;
  std::map<std::string, int> verdicts_;
};

TEST_F(RandomSequence, PostgresAnswersAsTheModelDoes) {
  std::vector<LookupItem> every_key;
  for (const RecordKey& key : RandomCalls::AllKeys()) every_key.push_back({key});
  for (; operations_ < kOperations && !HasFailure(); ++step_) {
    if (calls_.Chance(70)) StepClock();
    const int kind = calls_.Below(100);
    if (kind < 45) {
      StepBegin();
    } else if (kind < 82) {
      StepOwner();
    } else if (kind < 86) {
      StepLookup(calls_.Lookups());
    } else {
      StepMaintenance();
    }
    if (step_ % 100 == 99) StepLookup(every_key);
  }
  StepLookup(every_key);

  // A sequence that does not come by every answer tests less than it says.
  std::cout << operations_ << " operations in " << step_ << " steps\n";
  for (const auto& [verdict, count] : verdicts_) std::cout << count << " " << verdict << "\n";
  for (const char* verdict : {"Begin started written",
                              "Begin started repeated",
                              "Begin started repeated written",
                              "Begin replay",
                              "Begin in_progress",
                              "Begin KEY_REUSED",
                              "Begin LEASE_LOST",
                              "Begin NEEDS_RESOLUTION",
                              "Finish recorded",
                              "Finish already recorded",
                              "Finish OUTCOME_CONFLICT",
                              "Finish LEASE_LOST",
                              "Finish RECORD_NOT_FOUND",
                              "Renew renewed",
                              "Renew ALREADY_FINISHED",
                              "Renew LEASE_LOST",
                              "Renew NEEDS_RESOLUTION",
                              "Renew RECORD_NOT_FOUND",
                              "jump 2",
                              "jump 3",
                              "jump 4",
                              "swept",
                              "purged",
                              "purged unsettled"}) {
    EXPECT_GT(verdicts_[verdict], 0) << verdict;
  }
}

}  // namespace
}  // namespace idempotency
