// About what values hold in memory, for the bounds of queues and caches.
#pragma once

#include <cstddef>

#include "server/record/record.h"

namespace idempotency {

// What stands on the heap for it.
size_t HeldBytes(const RecordKey& key);
size_t HeldBytes(const Labels& labels);
// Itself included.
size_t HeldBytes(const Failure& failure);
size_t HeldBytes(const Answer& answer);

}  // namespace idempotency
