// Answering a Begin from the row that another Begin of the key has just been answered from.
#pragma once

#include <optional>

#include "server/record/decide.h"
#include "server/record/record.h"
#include "server/store/store.h"

namespace idempotency {

// The answer to `item`, or nothing when answering it would need a write: then only the store may
// decide. REQUIRES: `first` answers the same key, and was read or committed while `item` waited.
std::optional<BeginResult> Coalesce(const BeginItem& item, const BeginResult& first,
                                    const Policy& policy);

}  // namespace idempotency
