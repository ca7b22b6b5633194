// Names for operations: random ones, and ones made of what an operation is about.
//
//   runner.RunOnce(BusinessKeyFor("shop-1", "pay", {order_id, "card"}), …);
//
// The same arguments make the same key in the clients of all languages. A key made so never
// changes, while a record answers only for its ttl: BusinessKeyFor asks for 30 days, the longest
// there is. What must never be done twice, not even a year later, needs a unique constraint of
// yours besides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "idempotency/client/types.h"

namespace idempotency::client {

// A UUIDv4 from the system's random source, for a request that has no name of its own: made once
// and kept over all retries of the request. Empty if the system gives no random bytes; RunOnce
// refuses such a key.
std::string RandomRequestId();

// `kind` (1 to 32 of a-z 0-9 . _ -) and `parts` (1 to 16, each 1 to 1,024 bytes of UTF-8), joined
// so that different arguments make different keys: "pay:order-7:card". What is not A-Z a-z 0-9 . _
// - in a part is escaped, a long part, or a key over 255 bytes, replaced by its SHA-256.
// kInvalidField with the fields "kind", "parts" or "parts[1]" if they are none.
TextResult BusinessKey(std::string_view kind, const std::vector<std::string>& parts);

// A key with a ttl of 30 days, which RunOptions::ttl overrides. If there is none, every call with
// it is the kInvalidField of BusinessKey.
Key BusinessKeyFor(std::string merchant_id, std::string_view kind,
                   const std::vector<std::string>& parts);

}  // namespace idempotency::client
