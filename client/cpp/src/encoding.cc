#include "client/cpp/src/encoding.h"

#include <cstddef>
#include <cstdint>

namespace idempotency::client {

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0x0F]);
  }
  return text;
}

std::string Base64Url(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  uint32_t window = 0;
  int bits = 0;
  for (const char c : bytes) {
    window = window << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6; bits -= 6) text.push_back(kDigits[window >> (bits - 6) & 0x3F]);
  }
  if (bits > 0) text.push_back(kDigits[window << (6 - bits) & 0x3F]);
  return text;
}

std::string Uuid(std::string bytes, int version) {
  const auto set = [&](size_t at, int kept, int bits) {
    bytes[at] = static_cast<char>((static_cast<unsigned char>(bytes[at]) & kept) | bits);
  };
  set(6, 0x0F, version << 4);
  set(8, 0x3F, 0x80);  // RFC 9562's variant
  std::string text = Hex(bytes);
  for (const size_t at : {20, 16, 12, 8}) text.insert(at, 1, '-');
  return text;
}

}  // namespace idempotency::client
