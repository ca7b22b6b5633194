#include "server/engine/call.h"

#include <utility>
#include <variant>

#include "absl/hash/hash.h"
#include "server/base/check.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

size_t BytesOf(const RecordKey& key) { return key.merchant_id.size() + key.idempotency_key.size(); }

size_t BytesOf(const BeginItem& item) {
  // 64: about what a node of std::map costs beside its strings' bytes.
  size_t bytes = BytesOf(item.key) + item.operation.size();
  for (const auto& [name, value] : item.labels) bytes += 64 + name.size() + value.size();
  return bytes;
}

size_t BytesOf(const Outcome& outcome) {
  size_t bytes = sizeof(Outcome) + outcome.content_type.size() + outcome.response_id.size() +
                 outcome.body_sha256.size() + (outcome.body.has_value() ? outcome.body->size() : 0);
  for (const Header& header : outcome.headers) {
    bytes += sizeof(Header) + header.name.size() + header.value.size();
  }
  return bytes;
}

size_t BytesOf(const Answer& answer) {
  if (const auto* outcome = std::get_if<Outcome>(&answer)) return BytesOf(*outcome);
  const auto& failure = std::get<Failure>(answer);
  return sizeof(Failure) + failure.code.size() + failure.message.size() +
         (failure.outcome.has_value() ? BytesOf(*failure.outcome) : 0);
}

}  // namespace

CallBase::~CallBase() { IDEM_CHECK(answered) << "a call was lost"; }

BeginCall::BeginCall(BeginItem item_in, CallTerms terms_in, BeginDone done_in)
    : item(std::move(item_in)), done(std::move(done_in)) {
  terms = std::move(terms_in);
  hash = absl::HashOf(item.key);
  bytes = sizeof(BeginCall) + BytesOf(item);
}

OwnerCall::OwnerCall(OwnerItem item_in, CallTerms terms_in, OwnerDone done_in)
    : item(std::move(item_in)), done(std::move(done_in)) {
  terms = std::move(terms_in);
  hash = absl::HashOf(item.key);
  bytes = sizeof(OwnerCall) + BytesOf(item.key);
  if (item.answer != nullptr) bytes += BytesOf(*item.answer);
}

size_t LargestOwnerCallBytes(size_t max_body_bytes) {
  return sizeof(OwnerCall) + kMaxMerchantIdBytes + kMaxIdempotencyKeyBytes + sizeof(Failure) +
         kMaxFailureCodeBytes + kMaxFailureMessageBytes + sizeof(Outcome) + kMaxContentTypeBytes +
         kMaxResponseIdBytes + kDigestBytes + max_body_bytes + kMaxHeaders * sizeof(Header) +
         kMaxHeadersBytes;
}

void OwnerCall::MeetLock(absl::Duration now) {
  if (give_up_at != absl::InfiniteDuration()) return;
  give_up_at = IsDroppable() ? terms.deadline : now + kFinishPatience;
}

LookupCall::LookupCall(LookupItem item_in, CallTerms terms_in, LookupDone done_in)
    : item(std::move(item_in)), done(std::move(done_in)) {
  terms = std::move(terms_in);
  hash = absl::HashOf(item.key);
  bytes = sizeof(LookupCall) + BytesOf(item.key);
}

}  // namespace idempotency
