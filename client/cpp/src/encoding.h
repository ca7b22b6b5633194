// Bytes as text. Internal.
#pragma once

#include <string>
#include <string_view>

namespace idempotency::client {

// Lower case.
std::string Hex(std::string_view bytes);

// RFC 4648's, with - and _, without padding.
std::string Base64Url(std::string_view bytes);

// The text of a UUID whose version and variant are set in `bytes`. REQUIRES: 16 bytes.
std::string Uuid(std::string bytes, int version);

}  // namespace idempotency::client
