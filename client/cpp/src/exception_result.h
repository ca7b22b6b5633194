// What an exception of `fn` comes to.
#pragma once

#include <exception>
#include <functional>

#include "idempotency/client/types.h"

namespace idempotency::client {

// By `classify`, which may be null; kUnknown without it, and when it throws.
WorkResult ResultOfException(
    const std::exception_ptr& exception,
    const std::function<FailureDisposition(const std::exception_ptr&)>& classify);

}  // namespace idempotency::client
