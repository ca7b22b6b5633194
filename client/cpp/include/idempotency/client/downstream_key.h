// Idempotency keys for partners, made of a record's downstream key.
//
// Attempt::downstream_key may go to one partner as it is. Work that calls several, or one whose
// field is narrower, derives a key for each: the same for all attempts of the record, different for
// each partner, and the same in the clients of all languages.
//
//   partner.Pay(std::get<std::string>(attempt.DownstreamKeyFor("acme-bank", KeyShape::Digits(20))),
//   …);
#pragma once

#include <string>
#include <string_view>

#include "idempotency/client/types.h"

namespace idempotency::client {

// What a partner's field takes.
class KeyShape {
 public:
  // 36 characters: a UUIDv8.
  static constexpr KeyShape Uuid() { return {Kind::kUuid, 0}; }
  // 32 characters: lower-case hexadecimal.
  static constexpr KeyShape Hex32() { return {Kind::kHex32, 0}; }
  // 50 characters: lower-case hexadecimal.
  static constexpr KeyShape Max50() { return {Kind::kMax50, 0}; }
  // Up to 255 characters: 64 of lower-case hexadecimal.
  static constexpr KeyShape Max255() { return {Kind::kMax255, 0}; }
  // That many digits, the first of them not 0: 16 to 64. With fewer, two payments in a hundred
  // million would share a key, and one of them would not be made.
  static constexpr KeyShape Digits(int count) { return {Kind::kDigits, count}; }

 private:
  enum class Kind { kUuid, kHex32, kMax50, kMax255, kDigits };
  constexpr KeyShape(Kind kind, int digits) : kind_(kind), digits_(digits) {}

  friend TextResult DownstreamKeyFor(std::string_view downstream_key, std::string_view partner,
                                     KeyShape shape);

  Kind kind_;
  int digits_;
};

// `partner` is a name of yours for the partner, 1 to 64 of printable ASCII. It must never change:
// with another one the partner would not know the operation again. kInvalidField with the field
// "downstream_key" (an unprotected attempt has none), "partner" or "shape" if they are none.
TextResult DownstreamKeyFor(std::string_view downstream_key, std::string_view partner,
                            KeyShape shape);

}  // namespace idempotency::client
