// Text that is UTF-8, or is made so. Internal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace idempotency::client {

// At most `max_bytes` of `text`, cut between characters; what is not UTF-8 becomes a question mark.
std::string CleanText(std::string_view text, size_t max_bytes);

bool IsUtf8(std::string_view text);

}  // namespace idempotency::client
