#include "tests/simulation/faulty_store.h"

#include <type_traits>
#include <utility>

#include "server/record/fault.h"
#include "tests/simulation/turns.h"

namespace idempotency {
namespace {

// What a batch that ran twice is told: the second run's answer. The store knows that the attempt
// may be of the first one.
void Merge(const BeginResult& first, BeginResult& second) {
  second.wrote_attempt |= first.wrote_attempt && second.verdict == BeginVerdict::kStarted;
}
template <typename Result>
void Merge(const Result&, Result&) {}

}  // namespace

FaultyStore::Trouble FaultyStore::Meet(bool writes) {
  const Weather& weather = *shared_.weather;
  if (weather.is_away) return Trouble::kUnavailable;
  if (weather.fault_one_in == 0 || !shared_.random->OneIn(weather.fault_one_in)) {
    return Trouble::kNone;
  }
  static const std::vector<Trouble> kOfReads = {Trouble::kUnavailable, Trouble::kSomeAreNotRead,
                                                Trouble::kOneIsRefused};
  static const std::vector<Trouble> kOfWrites = {
      Trouble::kUnavailable, Trouble::kLostBefore,     Trouble::kLostAfter,
      Trouble::kRunAgain,    Trouble::kSomeAreLocked,  Trouble::kSomeAreLocked,
      Trouble::kRunAgain,    Trouble::kSomeAreNotRead, Trouble::kOneIsRefused};
  return shared_.random->Of(writes ? kOfWrites : kOfReads);
}

template <typename Result, typename Item>
void FaultyStore::Refuse(Trouble trouble, absl::Span<const Item* const> items,
                         std::vector<std::optional<absl::StatusOr<Result>>>& said) {
  Random& random = *shared_.random;
  switch (trouble) {
    case Trouble::kUnavailable:
      for (auto& each : said) each = MakeFault(Fault::kStoreUnavailable, "away");
      return;
    case Trouble::kLostBefore:
      for (auto& each : said) each = MakeFault(Fault::kCommitUnknown, "lost before the commit");
      return;
    case Trouble::kSomeAreLocked:
      for (auto& each : said) {
        if (random.OneIn(2)) each = MakeFault(Fault::kLockTimeout, "locked");
      }
      return;
    case Trouble::kSomeAreNotRead:
      // At least the first one is.
      for (size_t i = 1 + random.Below(items.size()); i < said.size(); ++i) {
        said[i] = MakeFault(Fault::kNotRead, "no room");
      }
      return;
    case Trouble::kOneIsRefused:
      said[random.Below(said.size())] = MakeFault(Fault::kInternal, "refused");
      return;
    case Trouble::kNone:
    case Trouble::kLostAfter:
    case Trouble::kRunAgain:
      return;
  }
}

template <typename Result, typename Item, typename Run>
void FaultyStore::RunRest(absl::Span<const Item* const> items, const Run& run,
                          std::vector<std::optional<absl::StatusOr<Result>>>& said) {
  std::vector<const Item*> rest;
  std::vector<size_t> places;
  for (size_t i = 0; i < items.size(); ++i) {
    if (said[i].has_value()) continue;
    rest.push_back(items[i]);
    places.push_back(i);
  }
  if (rest.empty()) return;
  std::vector<std::optional<Record>> before;
  for (const Item* item : rest) {
    SpoilBefore(item->key);
    before.push_back(shared_.database->Find(item->key));
  }
  BatchResults<Result> results = run(rest);
  for (size_t i = 0; i < rest.size(); ++i) {
    SpoilAfter(rest[i]->key, before[i]);
    shared_.history->Look(rest[i]->key, shared_.clock->BootTime());
  }
  // Of Begins the engine itself sees it, and ends the process.
  if constexpr (std::is_same_v<Result, LookupResult>) {
    if (shared_.defect == Defect::kSwapsAnswers && results.size() > 1) {
      std::swap(results[0], results[1]);
    }
  }
  for (size_t i = 0; i < places.size(); ++i) said[places[i]] = std::move(results[i]);
}

void FaultyStore::SpoilBefore(const RecordKey& key) {
  std::optional<Record> row = shared_.database->Find(key);
  if (shared_.defect != Defect::kEndsLeasesEarly || !row.has_value()) return;
  row->lease_expires_at = absl::UnixEpoch();
  shared_.database->Put(*std::move(row));
}

void FaultyStore::SpoilAfter(const RecordKey& key, const std::optional<Record>& before) {
  std::optional<Record> row = shared_.database->Find(key);
  if (!row.has_value()) return;
  if (shared_.defect == Defect::kForgetsCommits && shared_.random->OneIn(8)) {
    if (!before.has_value()) return shared_.database->Erase(key);
    row = before;
  } else if (shared_.defect == Defect::kRepeatsTokens && row->attempt_number > 1) {
    row->fencing_token = absl::ToUnixMicros(row->created_at);
  } else if (shared_.defect == Defect::kChangesOutcomes && IsFinal(row->state) &&
             before.has_value() && IsFinal(before->state)) {
    row->answer = std::make_shared<const Answer>(Outcome{.status_code = 500});
  } else {
    return;
  }
  shared_.database->Put(*std::move(row));
}

template <typename Result, typename Item, typename Run>
BatchResults<Result> FaultyStore::RunBatch(absl::Span<const Item* const> items, bool writes,
                                           const Run& run) {
  Turns::Yield();
  std::vector<std::optional<absl::StatusOr<Result>>> said(items.size());
  const Trouble trouble = Meet(writes);
  Refuse<Result, Item>(trouble, items, said);
  RunRest<Result, Item>(items, run, said);
  if (trouble == Trouble::kRunAgain) {
    Turns::Yield();
    std::vector<std::optional<absl::StatusOr<Result>>> again(items.size());
    RunRest<Result, Item>(items, run, again);
    for (size_t i = 0; i < items.size(); ++i) {
      if (said[i]->ok() && again[i]->ok()) Merge(**said[i], **again[i]);
    }
    said = std::move(again);
  }
  Turns::Yield();
  BatchResults<Result> results;
  for (auto& each : said) {
    if (trouble == Trouble::kLostAfter && shared_.defect == Defect::kDeniesCommits) {
      results.push_back(MakeFault(Fault::kStoreUnavailable, "denied"));
    } else if (trouble == Trouble::kLostAfter) {
      results.push_back(MakeFault(Fault::kCommitUnknown, "lost after the commit"));
    } else {
      results.push_back(*std::move(each));
    }
  }
  return results;
}

BatchResults<BeginResult> FaultyStore::BeginBatch(absl::Span<const BeginItem* const> items) {
  return RunBatch<BeginResult>(items, /*writes=*/true,
                               [&](const auto& rest) { return inner_.BeginBatch(rest); });
}

BatchResults<OwnerResult> FaultyStore::OwnerBatch(absl::Span<const OwnerItem* const> items) {
  return RunBatch<OwnerResult>(items, /*writes=*/true,
                               [&](const auto& rest) { return inner_.OwnerBatch(rest); });
}

BatchResults<LookupResult> FaultyStore::LookupBatch(absl::Span<const LookupItem* const> items) {
  return RunBatch<LookupResult>(items, /*writes=*/false,
                                [&](const auto& rest) { return inner_.LookupBatch(rest); });
}

BatchResults<ProbeResult> FaultyStore::ProbeBatch(absl::Span<const LookupItem* const> items) {
  return RunBatch<ProbeResult>(items, /*writes=*/false,
                               [&](const auto& rest) { return inner_.ProbeBatch(rest); });
}

BatchResults<bool> FaultyStore::KeepRefusedBatch(absl::Span<const OwnerItem* const> items) {
  return RunBatch<bool>(items, /*writes=*/true,
                        [&](const auto& rest) { return inner_.KeepRefusedBatch(rest); });
}

template <typename Run>
auto FaultyStore::RunMaintenance(const Run& run) -> decltype(run()) {
  Turns::Yield();
  if (Meet(/*writes=*/false) == Trouble::kUnavailable) {
    return MakeFault(Fault::kStoreUnavailable, "away");
  }
  auto result = run();
  shared_.history->LookAtAll(shared_.clock->BootTime());
  Turns::Yield();
  return result;
}

absl::StatusOr<int64_t> FaultyStore::CountBlocks() {
  return RunMaintenance([&] { return inner_.CountBlocks(); });
}

absl::StatusOr<std::vector<SweptRecord>> FaultyStore::SweepStep(BlockRange range,
                                                                absl::Duration grace) {
  return RunMaintenance([&] { return inner_.SweepStep(range, grace); });
}

absl::StatusOr<Survey> FaultyStore::SurveyStep(BlockRange range) {
  return RunMaintenance([&] { return inner_.SurveyStep(range); });
}

absl::StatusOr<int64_t> FaultyStore::PurgeStep(BlockRange range) {
  return RunMaintenance([&] { return inner_.PurgeStep(range); });
}

absl::StatusOr<std::vector<SweptRecord>> FaultyStore::PurgeUnsettledStep(BlockRange range,
                                                                         absl::Duration max_age) {
  return RunMaintenance([&] { return inner_.PurgeUnsettledStep(range, max_age); });
}

}  // namespace idempotency
