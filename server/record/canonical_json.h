// The canonical form of a JSON document: RFC 8785 (JCS), made strict and exact because money is
// compared by it.
//
// One document has one form whatever its member order, white space, escapes and spelling of
// numbers. What two parsers could read differently has no form at all. Beyond RFC 8785, numbers
// keep their exact value (canonical_number.h). Strings are not normalised.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace idempotency {

// Arrays and objects inside one another; a scalar alone has depth 0.
inline constexpr size_t kMaxJsonDepth = 64;

// Gives the canonical form of `document` to `sink`, in pieces, in order, during the call. The
// pieces are valid only while `sink` runs. Thread-safe.
//
// Returns kInvalidArgument, and never calls `sink`, when the document is no JSON text by RFC 8259,
// holds a byte order mark, invalid UTF-8, a lone surrogate, one member name twice in an object, a
// number that rounds to infinity or (not being zero) to zero, is nested deeper than kMaxJsonDepth,
// or is followed by anything but white space. The message names the fault and a byte near it,
// counted from 0, and repeats nothing of the document.
absl::Status CanonicalizeJson(absl::string_view document,
                              absl::FunctionRef<void(absl::string_view)> sink);

}  // namespace idempotency
