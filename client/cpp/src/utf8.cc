#include "client/cpp/src/utf8.h"

#include <algorithm>

namespace idempotency::client {
namespace {

// The length of the UTF-8 character that `text` begins with; 0 if it is none. By the table of
// well-formed sequences in the Unicode standard (3-7).
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t bytes = first < 0xC2   ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                       : first < 0xF5 ? 4
                                      : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) return 0;
  }
  return bytes;
}

}  // namespace

std::string CleanText(std::string_view text, size_t max_bytes) {
  std::string clean;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const size_t added = std::max<size_t>(bytes, 1);
    if (clean.size() + added > max_bytes) break;
    if (bytes == 0) {
      clean.push_back('?');
    } else {
      clean.append(text.substr(0, bytes));
    }
    text.remove_prefix(added);
  }
  return clean;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace idempotency::client
