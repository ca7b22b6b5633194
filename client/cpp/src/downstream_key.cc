#include "idempotency/client/downstream_key.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "client/cpp/src/arguments.h"
#include "client/cpp/src/encoding.h"
#include "client/cpp/src/sha256.h"

namespace idempotency::client {
namespace {

constexpr size_t kMaxPartnerBytes = 64;
constexpr int kFewestDigits = 16;
constexpr int kMostDigits = 64;

// The text that the service makes: 36 characters, lower case.
bool IsDownstreamKey(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    const bool is_digit = ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
    if (is_hyphen ? c != '-' : !is_digit) return false;
  }
  return true;
}

bool IsPartner(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPartnerBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return ' ' <= c && c <= '~'; });
}

// With its length before it, so that no two lists of texts are the same bytes.
void Append(std::string_view text, std::string* bytes) {
  bytes->push_back(static_cast<char>(text.size() >> 8));
  bytes->push_back(static_cast<char>(text.size() & 0xFF));
  bytes->append(text);
}

// `*number`, big-endian, divided by `divisor`, which is at most 255; returns the remainder.
unsigned DivideBy(unsigned divisor, std::string* number) {
  unsigned remainder = 0;
  for (char& digit : *number) {
    const unsigned dividend = remainder << 8 | static_cast<unsigned char>(digit);
    digit = static_cast<char>(dividend / divisor);
    remainder = dividend % divisor;
  }
  return remainder;
}

// The last digits are those of what is left after the first one was taken by a division.
std::string DigitsOf(std::string digest, size_t count) {
  std::string digits(count, '0');
  digits[0] = static_cast<char>('1' + DivideBy(9, &digest));
  for (size_t i = count - 1; i > 0; --i) digits[i] = static_cast<char>('0' + DivideBy(10, &digest));
  return digits;
}

}  // namespace

TextResult DownstreamKeyFor(std::string_view downstream_key, std::string_view partner,
                            KeyShape shape) {
  std::vector<FieldViolation> violations;
  if (!IsDownstreamKey(downstream_key)) {
    violations.push_back({"downstream_key", "must be one that the service made"});
  }
  if (!IsPartner(partner)) {
    violations.push_back({"partner", "must be 1 to 64 of printable ASCII"});
  }
  using Kind = KeyShape::Kind;
  const bool has_digits = shape.kind_ == Kind::kDigits;
  if (has_digits && (shape.digits_ < kFewestDigits || shape.digits_ > kMostDigits)) {
    violations.push_back({"shape", "must have 16 to 64 digits"});
  }
  if (!violations.empty()) return InvalidField(std::move(violations));

  const auto digest = [&](const std::string& name) {
    std::string bytes = "idempotency.v1 downstream key";
    Append(downstream_key, &bytes);
    Append(partner, &bytes);
    Append(name, &bytes);
    return Sha256(bytes);
  };
  switch (shape.kind_) {
    case Kind::kUuid:
      return Uuid(digest("uuid").substr(0, 16), 8);
    case Kind::kHex32:
      return Hex(digest("hex32").substr(0, 16));
    case Kind::kMax50:
      return Hex(digest("max50").substr(0, 25));
    case Kind::kMax255:
      return Hex(digest("max255"));
    case Kind::kDigits:
      break;
  }
  return DigitsOf(digest("digits" + std::to_string(shape.digits_)),
                  static_cast<size_t>(shape.digits_));
}

}  // namespace idempotency::client
