#include "server/record/record_id.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "server/record/digest.h"

namespace idempotency {
namespace {

constexpr Uuid kDownstreamNamespace = {0x6f, 0x1c, 0x8a, 0x34, 0x2b, 0x57, 0x4d, 0x0e,
                                       0x9a, 0x43, 0x7c, 0x1b, 0xe0, 0x5d, 0x92, 0xf8};

void SetVersion(Uuid& uuid, int version) {
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | (version << 4));
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
}

}  // namespace

Uuid RecordIdOf(const RecordKey& key, absl::Time created_at) {
  const int64_t created_us = absl::ToUnixMicros(created_at);
  const Sha256Digest digest = Sha256()
                                  .Bytes("idempotency.v1 record")
                                  .Short(key.merchant_id.size())
                                  .Bytes(key.merchant_id)
                                  .Short(key.idempotency_key.size())
                                  .Bytes(key.idempotency_key)
                                  .Number(created_us)
                                  .Finish();
  Uuid id;
  auto millis = static_cast<uint64_t>(absl::ToUnixMillis(created_at));
  for (int i = 5; i >= 0; --i) {
    id[static_cast<size_t>(i)] = static_cast<uint8_t>(millis & 0xff);
    millis >>= 8;
  }
  std::copy_n(digest.begin(), 10, id.begin() + 6);
  SetVersion(id, 8);
  return id;
}

Uuid DownstreamKeyOf(const Uuid& record_id) {
  std::array<uint8_t, 32> name;
  std::copy(kDownstreamNamespace.begin(), kDownstreamNamespace.end(), name.begin());
  std::copy(record_id.begin(), record_id.end(), name.begin() + 16);
  std::array<uint8_t, SHA_DIGEST_LENGTH> digest;
  // What UUIDv5 is made of; nothing secret hangs on it. Fetched once, see digest.cc.
  static const EVP_MD* const sha1 = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  IDEM_CHECK(sha1 != nullptr &&
             EVP_Digest(name.data(), name.size(), digest.data(), nullptr, sha1, nullptr) == 1)
      << "SHA-1 failed";
  Uuid key;
  std::copy_n(digest.begin(), key.size(), key.begin());
  SetVersion(key, 5);
  return key;
}

std::string UuidText(const Uuid& uuid) {
  const std::string hex = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(uuid.data()), uuid.size()));
  const absl::string_view all(hex);
  return absl::StrCat(all.substr(0, 8), "-", all.substr(8, 4), "-", all.substr(12, 4), "-",
                      all.substr(16, 4), "-", all.substr(20));
}

std::string RecordIdText(const RecordKey& key, absl::Time created_at) {
  return UuidText(RecordIdOf(key, created_at));
}

std::string RandomUuidText() {
  Uuid uuid;
  IDEM_CHECK(RAND_bytes(uuid.data(), static_cast<int>(uuid.size())) == 1)
      << "the system's random source failed";
  SetVersion(uuid, 4);
  return UuidText(uuid);
}

}  // namespace idempotency
