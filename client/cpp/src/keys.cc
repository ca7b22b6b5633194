#include "idempotency/client/keys.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "client/cpp/src/arguments.h"
#include "client/cpp/src/attempt_id.h"
#include "client/cpp/src/encoding.h"
#include "client/cpp/src/sha256.h"
#include "client/cpp/src/utf8.h"

namespace idempotency::client {
namespace {

constexpr size_t kMaxKindBytes = 32;
constexpr size_t kMaxParts = 16;
constexpr size_t kMaxPartBytes = 1024;
// Of a part as it stands in the key.
constexpr size_t kMaxEscapedBytes = 64;
constexpr size_t kMaxKeyBytes = 255;
constexpr std::chrono::hours kBusinessTtl(30 * 24);

// Not std::isalnum: that depends on the locale.
bool IsIn(char c, char first, char last) { return first <= c && c <= last; }
bool IsOfKind(char c) {
  return IsIn(c, 'a', 'z') || IsIn(c, '0', '9') || c == '.' || c == '_' || c == '-';
}
bool IsKept(char c) { return IsOfKind(c) || IsIn(c, 'A', 'Z'); }

std::string Escaped(const std::string& part) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : part) {
    if (IsKept(c)) {
      text.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text.push_back('%');
      text.push_back(kDigits[byte >> 4]);
      text.push_back(kDigits[byte & 0x0F]);
    }
  }
  // No escaped part begins with ~, so a hashed one is like none.
  return text.size() <= kMaxEscapedBytes ? text : "~" + Base64Url(Sha256(part));
}

std::vector<FieldViolation> ViolationsOf(std::string_view kind,
                                         const std::vector<std::string>& parts) {
  std::vector<FieldViolation> violations;
  if (kind.empty() || kind.size() > kMaxKindBytes ||
      !std::all_of(kind.begin(), kind.end(), IsOfKind)) {
    violations.push_back({"kind", "must be 1 to 32 of a-z 0-9 . _ -"});
  }
  if (parts.empty() || parts.size() > kMaxParts) {
    violations.push_back({"parts", "must be 1 to 16"});
    return violations;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty() && parts[i].size() <= kMaxPartBytes && IsUtf8(parts[i])) continue;
    violations.push_back({"parts[" + std::to_string(i) + "]", "must be 1 to 1,024 bytes of UTF-8"});
  }
  return violations;
}

}  // namespace

std::string RandomRequestId() { return NewAttemptId().value_or(""); }

TextResult BusinessKey(std::string_view kind, const std::vector<std::string>& parts) {
  std::vector<FieldViolation> violations = ViolationsOf(kind, parts);
  if (!violations.empty()) return InvalidField(std::move(violations));
  std::string key(kind);
  for (const std::string& part : parts) key += ":" + Escaped(part);
  if (key.size() > kMaxKeyBytes) key = std::string(kind) + ":~~" + Base64Url(Sha256(key));
  return key;
}

Key BusinessKeyFor(std::string merchant_id, std::string_view kind,
                   const std::vector<std::string>& parts) {
  Key key;
  key.merchant_id = std::move(merchant_id);
  key.ttl = kBusinessTtl;
  TextResult text = BusinessKey(kind, parts);
  if (const Error* error = std::get_if<Error>(&text)) {
    key.fault = error->violations.front();
  } else {
    key.idempotency_key = std::get<std::string>(std::move(text));
  }
  return key;
}

}  // namespace idempotency::client
