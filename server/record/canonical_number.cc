#include "server/record/canonical_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

// Far beyond the exponent of any double plus the digits of any body, and far from overflow.
constexpr int64_t kExponentCap = int64_t{1} << 60;
// The largest double is 0.179…e309; half of the smallest, which still rounds up to it, is
// 0.247…e-323.
constexpr int64_t kMaxPoint = 309;
constexpr int64_t kMinPoint = -323;
// No shortest form of a double has more digits.
constexpr size_t kMaxShortestDigits = 17;

// The value 0.DIGITS * 10^point, negated if `negative`. DIGITS neither begins nor ends with 0;
// empty is zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t point = 0;
};

// The value of the digits after 'e', with their sign, held within ±kExponentCap.
int64_t ParseExponent(absl::string_view text) {
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') {
    text.remove_prefix(1);
  }
  int64_t magnitude = 0;
  for (const char c : text) {
    magnitude = std::min(magnitude, kExponentCap / 16) * 10 + (c - '0');
  }
  return negative ? -magnitude : magnitude;
}

Decimal ParseDecimal(absl::string_view literal) {
  Decimal decimal;
  if (literal.front() == '-') {
    decimal.negative = true;
    literal.remove_prefix(1);
  }
  bool in_fraction = false;
  for (size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    if (c == 'e' || c == 'E') {
      decimal.point += ParseExponent(literal.substr(i + 1));
      break;
    }
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      in_fraction = true;
      continue;
    }
    const bool leading_zero = decimal.digits.empty() && c == '0';
    if (!leading_zero) {
      decimal.digits.push_back(c);
    }
    if (in_fraction) {
      decimal.point -= leading_zero ? 1 : 0;
    } else {
      decimal.point += leading_zero ? 0 : 1;
    }
  }
  decimal.digits.resize(decimal.digits.find_last_not_of('0') + 1);
  return decimal;
}

// The double nearest to the decimal's magnitude: infinity or zero where it is out of range.
double NearestDouble(const Decimal& decimal) {
  const std::string text = absl::StrCat("0.", decimal.digits, "e", decimal.point);
  double value = 0;
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    return decimal.point > 0 ? HUGE_VAL : 0.0;
  }
  return value;
}

// Whether the shortest text that names the double names this very decimal.
bool IsShortestForm(const Decimal& decimal, double nearest) {
  char text[32];
  const std::to_chars_result result =
      std::to_chars(text, text + sizeof(text), nearest, std::chars_format::scientific);
  const Decimal shortest = ParseDecimal(absl::string_view(text, result.ptr - text));
  return shortest.digits == decimal.digits && shortest.point == decimal.point;
}

// d.ddde±x, as ECMAScript writes what would need many zeros.
std::string SpellWithExponent(const Decimal& decimal) {
  const absl::string_view digits = decimal.digits;
  const int64_t exponent = decimal.point - 1;
  return absl::StrCat(digits.substr(0, 1), digits.size() > 1 ? "." : "", digits.substr(1),
                      exponent < 0 ? "e-" : "e+", std::abs(exponent));
}

CanonicalNumber SpellPlain(Decimal decimal) {
  const int64_t size = static_cast<int64_t>(decimal.digits.size());
  CanonicalNumber number;
  if (decimal.point <= 0) {
    number.head = "0.";
    number.zeros = static_cast<size_t>(-decimal.point);
    number.tail = std::move(decimal.digits);
  } else if (decimal.point >= size) {
    number.head = std::move(decimal.digits);
    number.zeros = static_cast<size_t>(decimal.point - size);
  } else {
    number.head = std::move(decimal.digits);
    number.head.insert(static_cast<size_t>(decimal.point), 1, '.');
  }
  return number;
}

}  // namespace

NumberFault SpellNumber(absl::string_view literal, CanonicalNumber* number) {
  Decimal decimal = ParseDecimal(literal);
  if (decimal.digits.empty()) {
    *number = CanonicalNumber{"0", 0, ""};
    return NumberFault::kNone;
  }
  if (decimal.point > kMaxPoint) {
    return NumberFault::kTooLarge;
  }
  if (decimal.point < kMinPoint) {
    return NumberFault::kTooSmall;
  }
  // A number with more digits than a double is judged by them alone, unless it is at the edge of
  // the range.
  const bool may_be_shortest = decimal.digits.size() <= kMaxShortestDigits;
  bool shortest = false;
  if (may_be_shortest || decimal.point == kMaxPoint || decimal.point == kMinPoint) {
    const double nearest = NearestDouble(decimal);
    if (std::isinf(nearest)) {
      return NumberFault::kTooLarge;
    }
    if (nearest == 0) {
      return NumberFault::kTooSmall;
    }
    shortest = may_be_shortest && IsShortestForm(decimal, nearest);
  }
  const bool negative = decimal.negative;
  // ECMAScript's bounds for an exponent: 1e21 and more, below 1e-6.
  if (shortest && (decimal.point > 21 || decimal.point < -5)) {
    *number = CanonicalNumber{SpellWithExponent(decimal), 0, ""};
  } else {
    *number = SpellPlain(std::move(decimal));
  }
  if (negative) {
    number->head.insert(0, 1, '-');
  }
  return NumberFault::kNone;
}

}  // namespace idempotency
