#include "tests/store/random_call.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

constexpr int kMerchants = 3;
constexpr int kKeysOfAMerchant = 24;
constexpr int kAttempts = 12;
constexpr int kMaxBatch = 64;

}  // namespace

RandomCalls::RandomCalls(uint64_t seed, const Policy& policy, ModelDatabase* model)
    : random_(seed), policy_(policy), model_(model) {}

int RandomCalls::Below(int bound) {
  // Not a standard distribution: theirs differ from library to library, and a seed is to mean the
  // same sequence everywhere.
  return static_cast<int>(random_() % static_cast<uint64_t>(bound));
}

std::vector<RecordKey> RandomCalls::AllKeys() {
  std::vector<RecordKey> keys;
  for (int merchant = 0; merchant < kMerchants; ++merchant) {
    for (int key = 0; key < kKeysOfAMerchant; ++key) {
      keys.push_back({absl::StrCat("m", merchant), absl::StrCat("key-", key)});
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<RecordKey> RandomCalls::DistinctKeys() {
  // Small batches often, so that the sequence is long; large ones as well.
  const int size = 1 + Below(Chance(20) ? kMaxBatch : 16);
  std::vector<RecordKey> keys = AllKeys();
  for (size_t i = keys.size() - 1; i > 0; --i) {
    std::swap(keys[i], keys[static_cast<size_t>(Below(static_cast<int>(i) + 1))]);
  }
  keys.resize(static_cast<size_t>(size));
  std::sort(keys.begin(), keys.end());
  return keys;
}

AttemptHash RandomCalls::AttemptFor(const RecordKey& key) {
  const std::optional<Record> record = model_->Find(key);
  if (record.has_value() && Chance(55)) return record->attempt;
  if (record.has_value() && !record->earlier_attempts.empty() && Chance(15)) {
    const auto& earlier = record->earlier_attempts;
    return earlier[static_cast<size_t>(Below(static_cast<int>(earlier.size())))];
  }
  return HashAttemptId(absl::StrCat("attempt-", Below(kAttempts)));
}

std::vector<BeginItem> RandomCalls::Begins() {
  std::vector<BeginItem> items;
  for (const RecordKey& key : DistinctKeys()) {
    BeginItem item;
    item.key = key;
    item.operation = Chance(3) ? "POST /refunds" : "POST /orders";
    item.fingerprint.fill(Chance(3) ? 8 : 7);
    item.fingerprint_scheme = Below(2);
    item.attempt = AttemptFor(key);
    item.ttl = absl::Seconds(60 * (1 + Below(3)));
    item.lease_duration = absl::Milliseconds(1000 + Below(3) * 7500);
    item.hold = Chance(1);
    if (Chance(30)) item.labels["order"] = absl::StrCat(Below(1000));
    items.push_back(std::move(item));
  }
  return items;
}

Outcome RandomCalls::RandomOutcome() {
  static const std::string kBodies[] = {"", std::string("\0\xff", 2), "{\"paid\":true}", "null"};
  Outcome outcome;
  outcome.status_code = Chance(5) ? std::numeric_limits<int32_t>::min() + Below(2) : 200 + Below(3);
  if (Chance(70)) outcome.body = kBodies[Below(std::size(kBodies))];
  for (int i = Below(3); i > 0; --i) outcome.headers.push_back({"set-cookie", absl::StrCat(i)});
  if (Chance(20)) outcome.response_id = "response";
  if (!outcome.body.has_value() && Chance(30)) {
    outcome.body_omitted = true;
    outcome.body_size = Below(1000);
    outcome.body_sha256 = std::string(32, 'd');
  }
  return outcome;
}

std::shared_ptr<const Answer> RandomCalls::RandomAnswer() {
  if (Chance(40)) return std::make_shared<const Answer>(RandomOutcome());
  Failure failure;
  failure.disposition = static_cast<Disposition>(1 + Below(3));
  failure.code = Chance(50) ? "declined" : "timeout";
  if (Chance(20)) failure.outcome = RandomOutcome();
  return std::make_shared<const Answer>(failure);
}

std::vector<OwnerItem> RandomCalls::OwnerCalls() {
  std::vector<OwnerItem> items;
  for (const RecordKey& key : DistinctKeys()) {
    OwnerItem item;
    item.key = key;
    item.attempt = AttemptFor(key);
    const std::optional<Record> record = model_->Find(key);
    if (Chance(30)) {
      item.lease_duration = absl::Milliseconds(1000 + Below(3) * 7500);
    } else if (record.has_value() && record->answer != nullptr && Chance(30)) {
      item.answer = record->answer;
    } else {
      item.answer = RandomAnswer();
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<LookupItem> RandomCalls::Lookups() {
  std::vector<LookupItem> items;
  for (const RecordKey& key : DistinctKeys()) items.push_back({key});
  return items;
}

absl::Duration RandomCalls::Jump() {
  const absl::Duration gap = LimitsOf(policy_).longest_gap;
  const absl::Duration jumps[] = {absl::Microseconds(-1),
                                  absl::Milliseconds(-300),
                                  -absl::Seconds(30),
                                  -absl::Seconds(200),
                                  gap,
                                  gap + absl::Microseconds(1),
                                  absl::Seconds(30),
                                  absl::Seconds(200)};
  return jumps[Below(std::size(jumps))];
}

absl::Time RandomCalls::NextInstant() {
  const absl::Time now = model_->Now();
  if (Chance(3)) return now - absl::Microseconds(Below(3'000'000));
  const std::vector<RecordKey> keys = AllKeys();
  const std::optional<Record> record =
      model_->Find(keys[static_cast<size_t>(Below(static_cast<int>(keys.size())))]);
  if (!record.has_value() || Chance(25)) return now + absl::Microseconds(Below(2'000'000));
  const absl::Time window_end = record->created_at + policy_.takeover_window;
  const absl::Time last_jump_at = model_->Guard().last_jump_at;
  const absl::Time boundaries[] = {
      last_jump_at + record->lease_duration + policy_.skew_margin,
      last_jump_at + ExpiryPause(policy_),
      record->lease_expires_at,
      record->lease_expires_at + policy_.skew_margin,
      record->created_at + record->ttl + policy_.skew_margin,
      record->finished_at.value_or(now) + policy_.replay_window + policy_.skew_margin,
      window_end - policy_.shortest_lease,
      window_end,
  };
  const absl::Time on = boundaries[Below(std::size(boundaries))];
  const absl::Time instant = Chance(50) ? on : on + absl::Microseconds(1);
  // A boundary in the past, or far ahead, which would let everything else pass unseen, is left out
  // most of the time.
  if (instant < now) return now + absl::Microseconds(Below(2'000'000));
  if (instant - now > absl::Seconds(20) && Chance(50)) return now + absl::Seconds(Below(5));
  return instant;
}

}  // namespace idempotency
