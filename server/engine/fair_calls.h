// Begins and Lookups on their way into a lane, apart by merchant: taken in turns, so that the flood
// of one merchant delays no other's calls, and shed from the merchant that has most, so that it
// keeps no other's calls out.
//
// Calls of one merchant, and with them those of one key, keep their order. Begins and Lookups are
// taken in turns of their own. Adding, taking and shedding a call take constant time, however many
// merchants there are; nothing is allocated but for a merchant that was not here lately.
//
// Not thread-safe: for a LaneQueue, under its lock.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "server/engine/call.h"

namespace idempotency {

// Calls that were accepted and have to make room for another merchant's.
struct ShedCalls {
  std::vector<std::unique_ptr<BeginCall>> begins;
  std::vector<std::unique_ptr<LookupCall>> lookups;
};

// First in, first out; threaded through the calls themselves (Call::ahead, Call::behind).
template <typename Call>
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;
  ~CallList() {
    while (first_ != nullptr) PopFirst();
  }

  size_t size() const { return size_; }
  bool empty() const { return first_ == nullptr; }
  // REQUIRES of these three: not empty.
  const Call& first() const { return *first_; }
  std::unique_ptr<Call> PopFirst();
  std::unique_ptr<Call> PopLast();
  void Add(std::unique_ptr<Call> call);

 private:
  Call* first_ = nullptr;
  Call* last_ = nullptr;
  size_t size_ = 0;
};

// A merchant's calls of one kind.
template <typename Call>
struct CallsOfKind {
  CallList<Call> calls;
  bool has_turn = false;  // is in CallTurns::order
};

struct MerchantCalls {
  size_t size() const { return std::get<0>(kinds).calls.size() + std::get<1>(kinds).calls.size(); }
  bool has_turn() const { return std::get<0>(kinds).has_turn || std::get<1>(kinds).has_turn; }

  std::string id;
  std::tuple<CallsOfKind<BeginCall>, CallsOfKind<LookupCall>> kinds;
  // Neighbours among the merchants with as many calls.
  MerchantCalls* previous = nullptr;
  MerchantCalls* next = nullptr;
};

// Whose call is next. A merchant whose calls were all shed keeps its turn until it comes.
template <typename Call>
struct CallTurns {
  std::deque<MerchantCalls*> order;
  size_t calls = 0;  // of all of them
};

class FairCalls {
 public:
  // Merchants without calls that are kept known, to save their allocation.
  static constexpr size_t kKeptMerchants = 64;

  FairCalls() = default;
  FairCalls(const FairCalls&) = delete;
  FairCalls& operator=(const FairCalls&) = delete;

  // Call is BeginCall or LookupCall.
  template <typename Call>
  void Add(std::unique_ptr<Call> call);
  // Moves calls to the end of `out`, one merchant's after the other's, until they have `max_keys`
  // keys; further calls of a key that is among them come along. (Keys are told apart by their hash:
  // two of one hash count once.)
  template <typename Call>
  void Take(size_t max_keys, std::vector<std::unique_ptr<Call>>* out);
  // Moves one call to `shed`, the newest of the merchant that has most, and returns its bytes.
  // Zero, and nothing is moved, unless that one has at least two calls more than `merchant`: only
  // then are they nearer to each other once `merchant` has added one.
  size_t ShedFor(absl::string_view merchant, ShedCalls* shed);
  // Undoes ShedFor.
  void PutBack(ShedCalls* shed);

  bool empty() const { return size<BeginCall>() + size<LookupCall>() == 0; }
  template <typename Call>
  size_t size() const {
    return std::get<CallTurns<Call>>(turns_).calls;
  }

 private:
  MerchantCalls& Find(absl::string_view id);
  // Around every change of a merchant's number of calls.
  void Unlink(MerchantCalls& merchant);
  void Link(MerchantCalls& merchant);
  void ForgetIfIdle(MerchantCalls& merchant);
  template <typename Call>
  std::unique_ptr<Call> TakeLast(MerchantCalls& merchant);

  absl::flat_hash_map<absl::string_view, std::unique_ptr<MerchantCalls>> merchants_;
  MerchantCalls* latest_ = nullptr;  // that was found, or null: mostly the next one is the same
  std::tuple<CallTurns<BeginCall>, CallTurns<LookupCall>> turns_;
  // The first of the merchants with so many calls, by that number.
  std::vector<MerchantCalls*> by_size_;
  size_t largest_ = 0;                      // the highest number that a merchant has
  absl::flat_hash_set<size_t> taken_keys_;  // of Take; kept for its memory
};

}  // namespace idempotency
