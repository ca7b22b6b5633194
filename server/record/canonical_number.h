// The canonical spelling of a JSON number: one text for one decimal value, and never a rounded one.
//
// RFC 8785 reads every number as a double, which makes two order numbers of 18 digits equal. Here
// the digits decide: RFC 8785's spelling is used only where the double has exactly the value that
// was written. Thread-safe: functions of their arguments only.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace idempotency {

// A spelling in three parts: `head`, then so many characters '0', then `tail`. Kept apart because a
// short number such as 3e-324 has hundreds of zeros, and a body may hold a hundred thousand of
// them.
struct CanonicalNumber {
  std::string head;
  size_t zeros = 0;
  std::string tail;
};

// Upper bound of CanonicalNumber::zeros, whatever the number: zeros follow or precede a number
// between 1e-324 and 1e309.
inline constexpr size_t kMaxCanonicalZeros = 324;

enum class NumberFault {
  kNone,
  kTooLarge,  // rounds to infinity as a double
  kTooSmall,  // rounds to zero as a double, but is not zero
};

// Spells the number whose JSON text is `literal`. Where it has the value of the shortest decimal
// form of the nearest double, that is ECMAScript's spelling (RFC 8785, section 3.2.2.3), otherwise
// the plain decimal without exponent and without superfluous zeros. Minus zero is 0. On a fault
// *number is left alone.
//
// REQUIRES: `literal` is a number by the JSON grammar, but any one byte may stand for its decimal
// point. Takes time and memory proportional to the literal, however large its exponent.
NumberFault SpellNumber(absl::string_view literal, CanonicalNumber* number);

}  // namespace idempotency
