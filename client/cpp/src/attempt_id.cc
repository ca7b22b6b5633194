#include "client/cpp/src/attempt_id.h"

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#include <array>
#include <cstddef>

namespace idempotency::client {

std::optional<std::string> NewAttemptId() {
  std::array<unsigned char, 16> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0) return std::nullopt;
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // RFC 9562's variant
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) id.push_back('-');
    id.push_back(kDigits[bytes[i] >> 4]);
    id.push_back(kDigits[bytes[i] & 0x0F]);
  }
  return id;
}

}  // namespace idempotency::client
