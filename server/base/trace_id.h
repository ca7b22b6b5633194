// Which trace a call belongs to, as W3C Trace Context names it: carried with a call so that every
// log line about it can say so.
#pragma once

#include <array>

#include "absl/strings/string_view.h"

namespace idempotency {

// A plain value without allocations: most calls have none.
struct TraceId {
  // 32 lower-case hexadecimal digits; all NUL: no trace.
  std::array<char, 32> hex{};

  bool is_set() const { return hex[0] != '\0'; }
  // Empty when not set. Valid as long as this is.
  absl::string_view text() const {
    return is_set() ? absl::string_view(hex.data(), hex.size()) : absl::string_view();
  }
};

}  // namespace idempotency
