#include "tests/bench/workload.h"

#include <cstring>
#include <utility>

#include "server/base/check.h"

namespace idempotency::bench {
namespace {

constexpr uint64_t kMerchants = 1000;
// A retry comes soon after its first call.
constexpr size_t kRecentKeys = 1024;

constexpr char kHexDigits[] = "0123456789abcdef";

uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

void SetUuidText(uint64_t high, uint64_t low, std::string* text) {
  text->resize(36);
  char* out = text->data();
  for (int digit = 0; digit < 32; ++digit) {
    const uint64_t half = digit < 16 ? high : low;
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) *out++ = '-';
    *out++ = kHexDigits[half >> (60 - 4 * (digit % 16)) & 0xf];
  }
}

void SetMerchant(const KeySeed& key, std::string* merchant) {
  const uint64_t number = key.low % kMerchants;
  merchant->assign("m0000");
  (*merchant)[2] = static_cast<char>('0' + number / 100);
  (*merchant)[3] = static_cast<char>('0' + number / 10 % 10);
  (*merchant)[4] = static_cast<char>('0' + number % 10);
}

void SetOwnAttempt(const KeySeed& key, std::string* attempt) {
  SetUuidText(Mix(key.high ^ 0xa77e), Mix(key.low ^ 0x3779), attempt);
}

void SetFingerprint(const KeySeed& key, std::string* fingerprint) {
  fingerprint->resize(32);
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t part = Mix(key.high + i) ^ key.low;
    std::memcpy(fingerprint->data() + 8 * i, &part, sizeof part);
  }
}

}  // namespace

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15;
  return Mix(state_);
}

std::optional<WorkloadKind> ParseWorkload(const std::string& name) {
  if (name == "begin") return WorkloadKind::kBegin;
  if (name == "pair") return WorkloadKind::kPair;
  if (name == "replay") return WorkloadKind::kReplay;
  if (name == "duplicate") return WorkloadKind::kDuplicate;
  return std::nullopt;
}

const char* HeardName(Heard heard) {
  switch (heard) {
    case Heard::kStarted:
      return "started";
    case Heard::kRecorded:
      return "recorded";
    case Heard::kReplay:
      return "replay";
    case Heard::kInProgress:
      return "in_progress";
    case Heard::kOther:
      return "other";
  }
  return "other";
}

Workload::Workload(const WorkloadOptions& options, uint64_t seed,
                   const std::vector<KeySeed>* recorded)
    : options_(options), recorded_(recorded), random_(seed) {
  IDEM_CHECK(options.kind != WorkloadKind::kReplay || !recorded->empty()) << "nothing to replay";
  // Random letters: what compresses would be stored smaller than a real body.
  body_.resize(options.body_bytes);
  for (char& letter : body_) letter = static_cast<char>('0' + random_.Below(75));
}

KeySeed Workload::NewKey() { return {random_.Next(), random_.Next()}; }

void Workload::FillBegin(const KeySeed& key, bool own_attempt, v1::BeginRequest* request) {
  SetMerchant(key, request->mutable_merchant_id());
  SetUuidText(key.high, key.low, request->mutable_idempotency_key());
  request->set_operation("POST /orders");
  if (own_attempt) {
    SetOwnAttempt(key, request->mutable_attempt_id());
  } else {
    SetUuidText(random_.Next(), random_.Next(), request->mutable_attempt_id());
  }
  SetFingerprint(key, request->mutable_fingerprint());
}

void Workload::FillComplete(const KeySeed& key, v1::CompleteRequest* request) {
  SetMerchant(key, request->mutable_merchant_id());
  SetUuidText(key.high, key.low, request->mutable_idempotency_key());
  SetOwnAttempt(key, request->mutable_attempt_id());
  v1::Outcome* const outcome = request->mutable_outcome();
  outcome->set_status_code(201);
  if (options_.response_id) outcome->set_response_id("pay_01HZX5W0V6TJ2QK9");
  if (options_.body_bytes > 0) {
    outcome->set_content_type("application/json");
    outcome->set_body(body_);
  }
}

bool Workload::Next(Exchange* exchange) {
  exchange->is_complete = false;
  switch (options_.kind) {
    case WorkloadKind::kBegin:
      exchange->key = NewKey();
      break;
    case WorkloadKind::kReplay:
      exchange->key = (*recorded_)[random_.Below(recorded_->size())];
      FillBegin(exchange->key, false, &exchange->begin);
      return true;
    case WorkloadKind::kDuplicate:
      if (!recent_.empty() && random_.Share() < options_.duplicate_share) {
        exchange->key = recent_[random_.Below(recent_.size())];
        FillBegin(exchange->key, false, &exchange->begin);
        return true;
      }
      exchange->key = NewKey();
      if (recent_.size() < kRecentKeys) {
        recent_.push_back(exchange->key);
      } else {
        recent_[next_recent_++ % kRecentKeys] = exchange->key;
      }
      break;
    case WorkloadKind::kPair: {
      const bool all_begun = options_.pairs.has_value() && begun_ >= *options_.pairs;
      if (at_work_.size() > options_.lag || (all_begun && !at_work_.empty())) {
        // A random one: payments do not end in the order they began.
        const size_t place = random_.Below(at_work_.size());
        std::swap(at_work_[place], at_work_.front());
        exchange->is_complete = true;
        exchange->key = at_work_.front();
        at_work_.pop_front();
        FillComplete(exchange->key, &exchange->complete);
        return true;
      }
      if (all_begun) return false;
      exchange->key = NewKey();
      ++begun_;
      ++unheard_;
      break;
    }
  }
  FillBegin(exchange->key, true, &exchange->begin);
  return true;
}

Heard Workload::Hear(const Exchange& exchange) {
  if (exchange.is_complete) {
    if (options_.pairs.has_value()) completed_.push_back(exchange.key);
    return Heard::kRecorded;
  }
  Heard heard = Heard::kOther;
  if (exchange.begun.has_started()) heard = Heard::kStarted;
  if (exchange.begun.has_replay()) heard = Heard::kReplay;
  if (exchange.begun.has_in_progress()) heard = Heard::kInProgress;
  if (options_.kind == WorkloadKind::kPair) {
    --unheard_;
    if (heard == Heard::kStarted) at_work_.push_back(exchange.key);
  }
  return heard;
}

bool Workload::IsExpected(Heard heard) const {
  switch (options_.kind) {
    case WorkloadKind::kBegin:
      return heard == Heard::kStarted;
    case WorkloadKind::kPair:
      return heard == Heard::kStarted || heard == Heard::kRecorded;
    case WorkloadKind::kReplay:
      return heard == Heard::kReplay;
    case WorkloadKind::kDuplicate:
      return heard == Heard::kStarted || heard == Heard::kInProgress;
  }
  return false;
}

void Workload::Failed(const Exchange& exchange) {
  if (options_.kind == WorkloadKind::kPair && !exchange.is_complete) --unheard_;
}

bool Workload::Finished() const {
  return options_.kind == WorkloadKind::kPair && options_.pairs.has_value() &&
         begun_ >= *options_.pairs && unheard_ == 0 && at_work_.empty();
}

}  // namespace idempotency::bench
