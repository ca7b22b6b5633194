// SHA-256 (FIPS 180-4), for the digest of a body that is too large to be recorded.
//
// Our own, since the client may not choose a crypto library: gRPC brings OpenSSL or BoringSSL, and
// a program that links both does not work.
#pragma once

#include <string>
#include <string_view>

namespace idempotency::client {

// 32 bytes.
std::string Sha256(std::string_view data);

}  // namespace idempotency::client
