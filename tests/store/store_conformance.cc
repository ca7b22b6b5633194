#include "tests/store/store_conformance.h"

#include "absl/strings/str_cat.h"

namespace idempotency {

Policy StoreConformance::TestPolicy() {
  Policy policy;
  policy.skew_margin = kMargin;
  policy.replay_window = kReplayWindow;
  policy.takeover_window = kTakeoverWindow;
  policy.shortest_lease = kShortestLease;
  return policy;
}

void StoreConformance::SetUp() {
  subject_ = GetParam().make(TestPolicy());
  store_ = subject_->Connect();
}

AttemptHash StoreConformance::Attempt(int n) { return HashAttemptId(absl::StrCat("attempt-", n)); }

RecordKey StoreConformance::Key(absl::string_view key) { return {"m1", std::string(key)}; }

BeginItem StoreConformance::Request(const RecordKey& key, int attempt) {
  BeginItem item;
  item.key = key;
  item.operation = "POST /orders";
  item.fingerprint.fill(7);
  item.attempt = Attempt(attempt);
  item.ttl = kTtl;
  item.lease_duration = kLease;
  return item;
}

OwnerItem StoreConformance::Answered(const RecordKey& key, int attempt, const Answer& answer) {
  OwnerItem item;
  item.key = key;
  item.attempt = Attempt(attempt);
  item.answer = std::make_shared<const Answer>(answer);
  return item;
}

Outcome StoreConformance::Paid(int32_t status_code) {
  Outcome outcome;
  outcome.status_code = status_code;
  outcome.content_type = "application/json";
  outcome.body = R"({"paid":true})";
  outcome.response_id = "response-1";
  return outcome;
}

Failure StoreConformance::Failed(Disposition disposition, const std::string& code) {
  Failure failure;
  failure.disposition = disposition;
  failure.code = code;
  failure.message = "the partner said so";
  return failure;
}

BeginResult StoreConformance::Begin(const BeginItem& item) {
  const BeginItem* const items[] = {&item};
  BatchResults<BeginResult> results = store_->BeginBatch(items);
  if (results.size() != 1 || !results[0].ok()) {
    ADD_FAILURE() << "Begin: " << (results.empty() ? absl::OkStatus() : results[0].status());
    return {.record = std::make_shared<const Record>()};
  }
  EXPECT_EQ(results[0]->reading.now, Now());
  EXPECT_EQ(Describe(results[0]->record.get()), Describe(Lookup(item.key).get()));
  return *results[0];
}

OwnerResult StoreConformance::Call(const OwnerItem& item) {
  const OwnerItem* const items[] = {&item};
  BatchResults<OwnerResult> results = store_->OwnerBatch(items);
  if (results.size() != 1 || !results[0].ok()) {
    ADD_FAILURE() << "Owner: " << (results.empty() ? absl::OkStatus() : results[0].status());
    return {.record = std::make_shared<const Record>()};
  }
  EXPECT_EQ(results[0]->reading.now, Now());
  const std::shared_ptr<const Record> stored = Lookup(item.key);
  const OwnerVerdict verdict = results[0]->verdict;
  if (verdict == OwnerVerdict::kRecorded || verdict == OwnerVerdict::kRenewed) {
    EXPECT_EQ(DescribeAfterWrite(*results[0]->record), DescribeAfterWrite(*stored));
  } else {
    EXPECT_EQ(Describe(results[0]->record.get()), Describe(stored.get()));
  }
  return *results[0];
}

OwnerResult StoreConformance::Complete(absl::string_view key, int attempt, const Outcome& outcome) {
  return Call(Answered(Key(key), attempt, outcome));
}

OwnerResult StoreConformance::Fail(absl::string_view key, int attempt, const Failure& failure) {
  return Call(Answered(Key(key), attempt, failure));
}

OwnerResult StoreConformance::Fail(absl::string_view key, int attempt, Disposition disposition) {
  return Fail(key, attempt, Failed(disposition));
}

OwnerResult StoreConformance::Renew(absl::string_view key, int attempt, absl::Duration lease) {
  OwnerItem item;
  item.key = Key(key);
  item.attempt = Attempt(attempt);
  item.lease_duration = lease;
  return Call(item);
}

bool StoreConformance::KeepRefused(const OwnerItem& item) {
  const OwnerItem* const items[] = {&item};
  const BatchResults<bool> results = store_->KeepRefusedBatch(items);
  if (results.size() != 1 || !results[0].ok()) {
    ADD_FAILURE() << "KeepRefused failed";
    return false;
  }
  return *results[0];
}

std::shared_ptr<const Record> StoreConformance::Lookup(const RecordKey& key) {
  const LookupItem item = {key};
  const LookupItem* const items[] = {&item};
  BatchResults<LookupResult> results = store_->LookupBatch(items);
  if (results.size() != 1 || !results[0].ok()) {
    ADD_FAILURE() << "Lookup failed";
    return nullptr;
  }
  EXPECT_EQ(results[0]->reading.now, Now());
  return results[0]->record;
}

std::string StoreConformance::Stored(absl::string_view key) { return Describe(Lookup(key).get()); }

BlockRange StoreConformance::AllBlocks() {
  const absl::StatusOr<int64_t> blocks = store_->CountBlocks();
  EXPECT_TRUE(blocks.ok()) << blocks.status();
  return {0, blocks.value_or(0)};
}

std::vector<SweptRecord> StoreConformance::Sweep(absl::Duration grace) {
  absl::StatusOr<std::vector<SweptRecord>> swept = store_->SweepStep(AllBlocks(), grace);
  EXPECT_TRUE(swept.ok()) << swept.status();
  return swept.ok() ? *std::move(swept) : std::vector<SweptRecord>();
}

int64_t StoreConformance::Purge() {
  const absl::StatusOr<int64_t> purged = store_->PurgeStep(AllBlocks());
  EXPECT_TRUE(purged.ok()) << purged.status();
  return purged.value_or(-1);
}

std::vector<SweptRecord> StoreConformance::PurgeUnsettled(absl::Duration max_age) {
  absl::StatusOr<std::vector<SweptRecord>> purged =
      store_->PurgeUnsettledStep(AllBlocks(), max_age);
  EXPECT_TRUE(purged.ok()) << purged.status();
  return purged.ok() ? *std::move(purged) : std::vector<SweptRecord>();
}

}  // namespace idempotency
