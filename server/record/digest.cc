#include "server/record/digest.h"

#include "server/base/check.h"

namespace idempotency {
namespace {

// Fetched once: EVP_sha256() stands for a search through OpenSSL's providers at every use, which
// took as long as hashing a key.
const EVP_MD* Sha256Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  IDEM_CHECK(algorithm != nullptr) << "no SHA-256";
  return algorithm;
}

}  // namespace

// OpenSSL's digest calls fail only when memory is gone or no provider is loaded.
Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  IDEM_CHECK(context_ != nullptr) << "no memory for a digest";
  IDEM_CHECK(EVP_DigestInit_ex(context_.get(), Sha256Algorithm(), nullptr) == 1) << "no SHA-256";
}

Sha256& Sha256::Bytes(absl::string_view bytes) {
  IDEM_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1) << "SHA-256 failed";
  return *this;
}

Sha256& Sha256::Field(absl::string_view bytes) {
  Number(static_cast<int64_t>(bytes.size()));
  return Bytes(bytes);
}

Sha256& Sha256::Number(int64_t number) {
  char bytes[8];
  auto rest = static_cast<uint64_t>(number);
  for (int i = 7; i >= 0; --i) {
    bytes[i] = static_cast<char>(rest & 0xff);
    rest >>= 8;
  }
  return Bytes(absl::string_view(bytes, sizeof bytes));
}

Sha256& Sha256::Short(size_t number) {
  IDEM_CHECK(number < 65536) << "does not fit 16 bits";
  const char bytes[2] = {static_cast<char>(number >> 8), static_cast<char>(number & 0xff)};
  return Bytes(absl::string_view(bytes, sizeof bytes));
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  IDEM_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1 && size == digest.size())
      << "SHA-256 failed";
  return digest;
}

}  // namespace idempotency
