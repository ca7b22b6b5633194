#include "server/rpc/answer_room.h"

#include "absl/hash/hash.h"

namespace idempotency {
namespace {

constexpr size_t kShards = 16;

}  // namespace

AnswerRoom::Held::~Held() {
  if (room_ != nullptr) room_->GiveBack(*this);
}

AnswerRoom::AnswerRoom(size_t max_bytes, Metrics* metrics)
    : max_bytes_(max_bytes), metrics_(metrics) {
  for (size_t i = 0; i < kShards; ++i) shards_.push_back(std::make_unique<Shard>());
}

std::optional<AnswerRoom::Held> AnswerRoom::TryHold(absl::string_view merchant, size_t bytes) {
  // Not the low bits: the map within the shard goes by those.
  Shard& shard = *shards_[(absl::HashOf(merchant) >> 32) % shards_.size()];
  MutexLock lock(&shard.mu);
  const auto found = shard.merchants.find(merchant);
  const size_t held = found == shard.merchants.end() ? 0 : found->second->bytes;
  if (!Take(bytes, /*reserve=*/held + bytes)) {
    metrics_->Add(Metric::kAnswersRefused);
    return std::nullopt;
  }
  Merchant* holder = found == shard.merchants.end() ? nullptr : found->second.get();
  if (holder == nullptr) {
    auto added = std::make_unique<Merchant>();
    holder = added.get();
    holder->name = std::string(merchant);
    shard.merchants.emplace(holder->name, std::move(added));
  }
  ++holder->answers;
  holder->bytes += bytes;
  return Held(this, bytes, &shard, holder);
}

AnswerRoom::Held AnswerRoom::Hold(size_t bytes) {
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  metrics_->Add(Metric::kAnswerBytes, static_cast<int64_t>(bytes));
  return Held(this, bytes, nullptr, nullptr);
}

bool AnswerRoom::Take(size_t bytes, size_t reserve) {
  size_t seen = bytes_.load(std::memory_order_relaxed);
  do {
    if (seen + bytes + reserve > max_bytes_) return false;
  } while (!bytes_.compare_exchange_weak(seen, seen + bytes, std::memory_order_relaxed));
  metrics_->Add(Metric::kAnswerBytes, static_cast<int64_t>(bytes));
  return true;
}

void AnswerRoom::GiveBack(const Held& held) {
  bytes_.fetch_sub(held.bytes_, std::memory_order_relaxed);
  metrics_->Add(Metric::kAnswerBytes, -static_cast<int64_t>(held.bytes_));
  if (held.shard_ == nullptr) return;
  MutexLock lock(&held.shard_->mu);
  held.merchant_->bytes -= held.bytes_;
  if (--held.merchant_->answers > 0) return;
  // Not by the name that stands in what is erased.
  held.shard_->merchants.erase(held.shard_->merchants.find(held.merchant_->name));
}

}  // namespace idempotency
