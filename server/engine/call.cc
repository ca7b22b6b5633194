#include "server/engine/call.h"

#include <utility>

#include "absl/hash/hash.h"
#include "server/base/check.h"
#include "server/engine/held_bytes.h"
#include "server/record/limit.h"

namespace idempotency {

CallBase::~CallBase() { IDEM_CHECK(answered) << "a call was lost"; }

BeginCall::BeginCall(BeginItem item_in, CallTerms terms_in, BeginDone done_in)
    : item(std::move(item_in)), done(std::move(done_in)) {
  terms = std::move(terms_in);
  hash = absl::HashOf(item.key);
  bytes = sizeof(BeginCall) + HeldBytes(item.key) + item.operation.size() + HeldBytes(item.labels);
}

OwnerCall::OwnerCall(OwnerItem item_in, CallTerms terms_in, OwnerDone done_in)
    : item(std::move(item_in)), done(std::move(done_in)) {
  terms = std::move(terms_in);
  hash = absl::HashOf(item.key);
  bytes = sizeof(OwnerCall) + HeldBytes(item.key);
  if (item.answer != nullptr) bytes += HeldBytes(*item.answer);
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
  bytes = sizeof(LookupCall) + HeldBytes(item.key);
}

}  // namespace idempotency
