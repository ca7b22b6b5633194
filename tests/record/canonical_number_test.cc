#include "server/record/canonical_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

// The whole spelling, or the fault in angle brackets.
std::string Spell(absl::string_view literal) {
  CanonicalNumber number;
  switch (SpellNumber(literal, &number)) {
    case NumberFault::kTooLarge:
      return "<too large>";
    case NumberFault::kTooSmall:
      return "<too small>";
    case NumberFault::kNone:
      break;
  }
  EXPECT_LE(number.zeros, kMaxCanonicalZeros);
  return absl::StrCat(number.head, std::string(number.zeros, '0'), number.tail);
}

double DoubleOf(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The value with so many digits after the point; exact, as the C library prints.
std::string ExactText(long double value, int decimals) {
  char text[1200];
  const int size = std::snprintf(text, sizeof text, "%.*Lf", decimals, value);
  return std::string(text, static_cast<size_t>(size));
}

// RFC 8785, appendix B, without NaN and the infinities, which JSON cannot spell.
TEST(CanonicalNumber, KeepsEveryValidSampleOfRfc8785AppendixB) {
  const struct {
    uint64_t bits;
    const char* text;
  } kSamples[] = {
      {0x0000000000000001, "5e-324"},
      {0x8000000000000001, "-5e-324"},
      {0x7fefffffffffffff, "1.7976931348623157e+308"},
      {0xffefffffffffffff, "-1.7976931348623157e+308"},
      {0x4340000000000000, "9007199254740992"},
      {0xc340000000000000, "-9007199254740992"},
      {0x4430000000000000, "295147905179352830000"},
      {0x44b52d02c7e14af5, "9.999999999999997e+22"},
      {0x44b52d02c7e14af6, "1e+23"},
      {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
      {0x444b1ae4d6e2ef4e, "999999999999999700000"},
      {0x444b1ae4d6e2ef4f, "999999999999999900000"},
      {0x444b1ae4d6e2ef50, "1e+21"},
      {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
      {0x3eb0c6f7a0b5ed8d, "0.000001"},
      {0x41b3de4355555553, "333333333.3333332"},
      {0x41b3de4355555554, "333333333.33333325"},
      {0x41b3de4355555555, "333333333.3333333"},
      {0x41b3de4355555556, "333333333.3333334"},
      {0x41b3de4355555557, "333333333.33333343"},
      {0xbecbf647612f3696, "-0.0000033333333333333333"},
      {0x43143ff3c1cb0959, "1424953923781206.2"},
  };
  for (const auto& sample : kSamples) {
    EXPECT_EQ(std::strtod(sample.text, nullptr), DoubleOf(sample.bits)) << sample.text;
    EXPECT_EQ(Spell(sample.text), sample.text);
  }
}

TEST(CanonicalNumber, SpellsBothZerosOfAppendixBAsZero) {
  for (const char* zero : {"0", "-0", "0.0", "-0.000", "0e5", "-0E-5", "0.00e+99"}) {
    EXPECT_EQ(Spell(zero), "0") << zero;
  }
}

TEST(CanonicalNumber, StaysExactWhereRfc8785Rounds) {
  EXPECT_EQ(Spell("333333333.33333329"), "333333333.33333329");
  EXPECT_EQ(Spell("9007199254740993"), "9007199254740993");
  EXPECT_EQ(Spell("-123456789012345678.5"), "-123456789012345678.5");
  EXPECT_EQ(Spell("0.1000000000000000055511151231257827"), "0.1000000000000000055511151231257827");
}

TEST(CanonicalNumber, IsPlainWithoutExponentWhereItIsNoDouble) {
  EXPECT_EQ(Spell("9007199254740993e5"), "900719925474099300000");
  EXPECT_EQ(Spell("12345678901234567890123e-30"), "0.000000012345678901234567890123");
  EXPECT_EQ(Spell("123456789012345678901234567890e-10"), "12345678901234567890.123456789");
  EXPECT_EQ(Spell("3e-324"), absl::StrCat("0.", std::string(323, '0'), "3"));
  EXPECT_EQ(Spell("9007199254740993e292"), absl::StrCat("9007199254740993", std::string(292, '0')));
}

TEST(CanonicalNumber, OneValueHasOneSpelling) {
  for (const char* one :
       {"1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000e-0", "0.0001e4", "100e-02"}) {
    EXPECT_EQ(Spell(one), "1") << one;
  }
  for (const char* order : {"123456789012345678.9", "1234567890123456789e-1",
                            "0.1234567890123456789e18", "123456789012345678.900"}) {
    EXPECT_EQ(Spell(order), "123456789012345678.9") << order;
  }
}

TEST(CanonicalNumber, ChangesToAnExponentAtTheBoundsOfEcmaScript) {
  EXPECT_EQ(Spell("1e20"), "100000000000000000000");
  EXPECT_EQ(Spell("1e21"), "1e+21");
  EXPECT_EQ(Spell("123e19"), "1.23e+21");
  EXPECT_EQ(Spell("1e-6"), "0.000001");
  EXPECT_EQ(Spell("1e-7"), "1e-7");
  EXPECT_EQ(Spell("12e-8"), "1.2e-7");
}

TEST(CanonicalNumber, RefusesWhatRoundsToInfinity) {
  EXPECT_EQ(Spell("1.7976931348623157e308"), "1.7976931348623157e+308");
  EXPECT_EQ(Spell("1.7976931348623159e308"), "<too large>");
  EXPECT_EQ(Spell("-1e309"), "<too large>");
  EXPECT_EQ(Spell(absl::StrCat("1", std::string(309, '0'))), "<too large>");
}

TEST(CanonicalNumber, RefusesTheFirstIntegerThatRoundsToInfinityAndKeepsTheOneBefore) {
  // Halfway between the largest double and the next power of two: a tie, which rounds up.
  const std::string first = ExactText(std::ldexp(1.0L, 1024) - std::ldexp(1.0L, 970), 0);
  ASSERT_EQ(first.size(), 309u);
  ASSERT_EQ(first.back(), '2');
  std::string before = first;
  before.back() = '1';
  EXPECT_EQ(Spell(first), "<too large>");
  EXPECT_EQ(Spell(before), before);
}

TEST(CanonicalNumber, RefusesWhatRoundsToZeroWithoutBeingZero) {
  EXPECT_EQ(Spell("-1e-400"), "<too small>");
  EXPECT_EQ(Spell("2.4703282292062327e-324"), "<too small>");
  EXPECT_EQ(Spell(absl::StrCat("0.", std::string(400, '0'), "1")), "<too small>");
}

TEST(CanonicalNumber, RefusesHalfTheSmallestDoubleAndKeepsTheNextDecimalAboveIt) {
  // Half of the smallest double: a tie, which rounds to zero.
  const std::string half = ExactText(std::ldexp(1.0L, -1075), 1075);
  ASSERT_EQ(half.back(), '5');
  EXPECT_EQ(Spell(half), "<too small>");
  EXPECT_EQ(Spell(half + "1"), half + "1");
}

TEST(CanonicalNumber, AnExponentOfAnySizeIsOnlyTooLargeOrTooSmall) {
  EXPECT_EQ(Spell("1e999999999999"), "<too large>");
  EXPECT_EQ(Spell("1e9223372036854775807"), "<too large>");
  EXPECT_EQ(Spell("1e-9223372036854775808"), "<too small>");
  EXPECT_EQ(Spell(absl::StrCat("1e", std::string(100'000, '9'))), "<too large>");
  EXPECT_EQ(Spell(absl::StrCat("1e-", std::string(100'000, '9'))), "<too small>");
  EXPECT_EQ(Spell("0e999999999"), "0");
  EXPECT_EQ(Spell(absl::StrCat("-0.0e-", std::string(100'000, '9'))), "0");
}

TEST(CanonicalNumber, ALargeExponentAndManyDigitsCancelOut) {
  EXPECT_EQ(Spell(absl::StrCat("15", std::string(100'000, '0'), "e-100000")), "15");
  EXPECT_EQ(Spell(absl::StrCat("0.", std::string(100'000, '0'), "15e100001")), "1.5");
  EXPECT_EQ(Spell("1e0000000000000000000000000000000000000002"), "100");
}

// The parser writes the C locale's point into the text it hands over.
TEST(CanonicalNumber, TakesAnyByteForTheDecimalPoint) { EXPECT_EQ(Spell("-12,50e1"), "-125"); }

}  // namespace
}  // namespace idempotency
