#include "server/engine/fair_calls.h"

#include <utility>

#include "server/base/check.h"

namespace idempotency {

template <typename Call>
void CallList<Call>::Add(std::unique_ptr<Call> call) {
  Call* const added = call.release();
  added->ahead = last_;
  added->behind = nullptr;
  (last_ == nullptr ? first_ : last_->behind) = added;
  last_ = added;
  ++size_;
}

template <typename Call>
std::unique_ptr<Call> CallList<Call>::PopFirst() {
  std::unique_ptr<Call> popped(first_);
  first_ = first_->behind;
  (first_ == nullptr ? last_ : first_->ahead) = nullptr;
  --size_;
  return popped;
}

template <typename Call>
std::unique_ptr<Call> CallList<Call>::PopLast() {
  std::unique_ptr<Call> popped(last_);
  last_ = last_->ahead;
  (last_ == nullptr ? first_ : last_->behind) = nullptr;
  --size_;
  return popped;
}

MerchantCalls& FairCalls::Find(absl::string_view id) {
  if (latest_ != nullptr && latest_->id == id) return *latest_;
  const auto found = merchants_.find(id);
  if (found != merchants_.end()) {
    latest_ = found->second.get();
  } else {
    auto merchant = std::make_unique<MerchantCalls>();
    merchant->id = std::string(id);
    latest_ = merchant.get();
    merchants_.emplace(latest_->id, std::move(merchant));
  }
  return *latest_;
}

void FairCalls::Unlink(MerchantCalls& merchant) {
  const size_t size = merchant.size();
  if (size == 0) return;
  (merchant.previous == nullptr ? by_size_[size] : merchant.previous->next) = merchant.next;
  if (merchant.next != nullptr) merchant.next->previous = merchant.previous;
  merchant.previous = merchant.next = nullptr;
}

void FairCalls::Link(MerchantCalls& merchant) {
  const size_t size = merchant.size();
  if (size > 0) {
    if (by_size_.size() <= size) by_size_.resize(size + 1);
    merchant.next = by_size_[size];
    if (merchant.next != nullptr) merchant.next->previous = &merchant;
    by_size_[size] = &merchant;
    if (size > largest_) largest_ = size;
  }
  // Sizes change by one, so this goes down by one at the most.
  while (largest_ > 0 && by_size_[largest_] == nullptr) --largest_;
}

void FairCalls::ForgetIfIdle(MerchantCalls& merchant) {
  if (merchant.size() > 0 || merchant.has_turn() || merchants_.size() <= kKeptMerchants) return;
  if (latest_ == &merchant) latest_ = nullptr;
  // Not by merchant.id itself, which is gone before the map has done with it.
  merchants_.erase(merchants_.find(merchant.id));
}

template <typename Call>
void FairCalls::Add(std::unique_ptr<Call> call) {
  MerchantCalls& merchant = Find(call->item.key.merchant_id);
  auto& kind = std::get<CallsOfKind<Call>>(merchant.kinds);
  auto& turns = std::get<CallTurns<Call>>(turns_);
  Unlink(merchant);
  kind.calls.Add(std::move(call));
  Link(merchant);
  ++turns.calls;
  if (!kind.has_turn) {
    kind.has_turn = true;
    turns.order.push_back(&merchant);
  }
}

template <typename Call>
void FairCalls::Take(size_t max_keys, std::vector<std::unique_ptr<Call>>* out) {
  auto& turns = std::get<CallTurns<Call>>(turns_);
  const bool all_fit = turns.calls <= max_keys;
  taken_keys_.clear();
  while (!turns.order.empty()) {
    MerchantCalls& merchant = *turns.order.front();
    auto& kind = std::get<CallsOfKind<Call>>(merchant.kinds);
    if (!kind.calls.empty()) {
      const size_t hash = kind.calls.first().hash;
      if (!all_fit && !taken_keys_.contains(hash)) {
        if (taken_keys_.size() >= max_keys) return;
        taken_keys_.insert(hash);
      }
      Unlink(merchant);
      out->push_back(kind.calls.PopFirst());
      Link(merchant);
      --turns.calls;
      // Alone, it has the next turn, too.
      if (turns.order.size() == 1 && !kind.calls.empty()) continue;
    }
    turns.order.pop_front();
    if (!kind.calls.empty()) {
      turns.order.push_back(&merchant);
      continue;
    }
    kind.has_turn = false;
    ForgetIfIdle(merchant);
  }
}

template <typename Call>
std::unique_ptr<Call> FairCalls::TakeLast(MerchantCalls& merchant) {
  Unlink(merchant);
  std::unique_ptr<Call> call = std::get<CallsOfKind<Call>>(merchant.kinds).calls.PopLast();
  Link(merchant);
  --std::get<CallTurns<Call>>(turns_).calls;
  return call;
}

size_t FairCalls::ShedFor(absl::string_view merchant, ShedCalls* shed) {
  const auto found = merchants_.find(merchant);
  const size_t own = found == merchants_.end() ? 0 : found->second->size();
  if (largest_ < own + 2) return 0;
  MerchantCalls& largest = *by_size_[largest_];
  // Of the kind it has more of; a Lookup is cheaper to ask again than a Begin.
  if (std::get<CallsOfKind<LookupCall>>(largest.kinds).calls.size() >=
      std::get<CallsOfKind<BeginCall>>(largest.kinds).calls.size()) {
    shed->lookups.push_back(TakeLast<LookupCall>(largest));
    return shed->lookups.back()->bytes;
  }
  shed->begins.push_back(TakeLast<BeginCall>(largest));
  return shed->begins.back()->bytes;
}

void FairCalls::PutBack(ShedCalls* shed) {
  // The one shed last was the oldest of its merchant's.
  for (; !shed->begins.empty(); shed->begins.pop_back()) Add(std::move(shed->begins.back()));
  for (; !shed->lookups.empty(); shed->lookups.pop_back()) Add(std::move(shed->lookups.back()));
}

template class CallList<BeginCall>;
template class CallList<LookupCall>;
template void FairCalls::Add(std::unique_ptr<BeginCall>);
template void FairCalls::Add(std::unique_ptr<LookupCall>);
template void FairCalls::Take(size_t, std::vector<std::unique_ptr<BeginCall>>*);
template void FairCalls::Take(size_t, std::vector<std::unique_ptr<LookupCall>>*);

}  // namespace idempotency
