// SHA-256 fed with length-prefixed fields, so that no two different lists of fields feed the same
// bytes.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace idempotency {

using Sha256Digest = std::array<uint8_t, 32>;

// One digest in the making; for one thread.
class Sha256 {
 public:
  Sha256();
  // The bytes alone.
  Sha256& Bytes(absl::string_view bytes);
  // A 64-bit big-endian length, then the bytes.
  Sha256& Field(absl::string_view bytes);
  // 64 bits, big-endian.
  Sha256& Number(int64_t number);
  // 16 bits, big-endian. REQUIRES: 0 <= number < 65536.
  Sha256& Short(size_t number);
  // Ends it; nothing may be added afterwards.
  Sha256Digest Finish();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace idempotency
