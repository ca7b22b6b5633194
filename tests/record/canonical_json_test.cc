#include "server/record/canonical_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The canonical text, or the message of the fault.
std::string Canonical(absl::string_view document) {
  std::string text;
  const absl::Status status = CanonicalizeJson(
      document, [&text](absl::string_view piece) { text.append(piece.data(), piece.size()); });
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(text, "") << "gave out text before it knew the fault";
    return std::string(status.message());
  }
  return text;
}

// So many of `text`, one after another.
std::string Times(size_t count, absl::string_view text) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all.append(text.data(), text.size());
  }
  return all;
}

// RFC 8785, section 3.2.2, but for the first number, which that RFC rounds.
TEST(CanonicalJson, GivesTheExampleOfRfc8785WithItsFirstNumberExact) {
  EXPECT_EQ(Canonical(R"({
              "numbers": [333333333.33333329, 1E30, 4.50,
                          2e-3, 0.000000000000000000000000001],
              "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
              "literals": [null, true, false]
            })"),
            "{\"literals\":[null,true,false],"
            "\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],"
            "\"string\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

// RFC 8785, section 3.2.3.
TEST(CanonicalJson, SortsTheExampleOfRfc8785ByUtf16CodeUnits) {
  EXPECT_EQ(Canonical(R"({
              "\u20ac": "Euro Sign",
              "\r": "Carriage Return",
              "\ufb33": "Hebrew Letter Dalet With Dagesh",
              "1": "One",
              "\ud83d\ude00": "Emoji: Grinning Face",
              "\u0080": "Control",
              "\u00f6": "Latin Small Letter O With Diaeresis"
            })"),
            "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xc2\x80\":\"Control\","
            "\"\u00f6\":\"Latin Small Letter O With Diaeresis\",\"\u20ac\":\"Euro Sign\","
            "\"\U0001F600\":\"Emoji: Grinning Face\","
            "\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}");
}

TEST(CanonicalJson, SortsANameBeforeTheLongerOneItBegins) {
  EXPECT_EQ(Canonical(R"({"ab":1,"a":2,"":3,"aa":4})"), R"({"":3,"a":2,"aa":4,"ab":1})");
}

TEST(CanonicalJson, SortsByTheCharactersAndNotByTheirEscapes) {
  // As spelled, \" begins with 5C, which is after 23; the character is 22, before it.
  EXPECT_EQ(Canonical(R"({"#":1,"\"":2,"\n":3,"]":4,"\\":5})"),
            R"({"\n":3,"\"":2,"#":1,"\\":5,"]":4})");
}

TEST(CanonicalJson, SortsCharactersBeyondTheBasicPlaneByTheirSurrogates) {
  EXPECT_EQ(Canonical("{\"\uffff\":1,\"\U0010FFFF\":2,\"\ue000\":3,\"\U00010000\":4,\"\ud7ff\":5}"),
            "{\"\ud7ff\":5,\"\U00010000\":4,\"\U0010FFFF\":2,\"\ue000\":3,\"\uffff\":1}");
}

TEST(CanonicalJson, SortsObjectsWithinObjectsAndLeavesArraysInOrder) {
  EXPECT_EQ(Canonical(R"({"b":{"z":[{"b":1,"a":2},3],"y":{}},"a":[2,1,[]]})"),
            R"({"a":[2,1,[]],"b":{"y":{},"z":[{"a":2,"b":1},3]}})");
}

TEST(CanonicalJson, EscapesOnlyWhatMustBe) {
  EXPECT_EQ(
      Canonical(R"("\u0000\u0008\t\n\u000b\f\r\u001f \u0022\u005C\/\u007f\u00e9\ud83d\ude00")"),
      "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\x7f\u00e9\U0001F600\"");
}

TEST(CanonicalJson, DropsWhiteSpaceBetweenButNotWithinTokens) {
  EXPECT_EQ(Canonical(" \t\r\n{ \"a b\" :\n[ 1 ,\t\" \" ] } \n"), R"({"a b":[1," "]})");
}

TEST(CanonicalJson, KeepsEveryIntegerOf64Bits) {
  EXPECT_EQ(Canonical("[18446744073709551615,9223372036854775807,-9223372036854775808,-0]"),
            "[18446744073709551615,9223372036854775807,-9223372036854775808,0]");
}

TEST(CanonicalJson, KeepsIntegersJustBeyond64Bits) {
  EXPECT_EQ(Canonical("[18446744073709551616,-9223372036854775809]"),
            "[18446744073709551616,-9223372036854775809]");
}

TEST(CanonicalJson, WritesOutTheZerosOfNumbersInMembersThatAreMoved) {
  EXPECT_EQ(Canonical(R"({"b":3e-324,"a":[9007199254740993e292,1e9]})"),
            absl::StrCat("{\"a\":[9007199254740993", std::string(292, '0'), ",1000000000],\"b\":0.",
                         std::string(323, '0'), "3}"));
}

TEST(CanonicalJson, OfACanonicalDocumentIsThatDocument) {
  const std::string canonical = Canonical(R"({"z":[1.50,3e-324,1E21,"\u00e9\/"],"a":{"\n":0}})");
  EXPECT_EQ(Canonical(canonical), canonical);
}

TEST(CanonicalJson, RefusesAMemberNameTwice) {
  EXPECT_THAT(Canonical(R"({"amount":1,"currency":"USD","amount":2})"),
              HasSubstr("one member name twice"));
  EXPECT_THAT(Canonical(R"({"a":1,"a":1})"), HasSubstr("one member name twice"));
  EXPECT_THAT(Canonical(R"([{"x":{"":1,"":1}}])"), HasSubstr("one member name twice"));
}

TEST(CanonicalJson, RefusesAMemberNameTwiceThroughEscapes) {
  EXPECT_THAT(Canonical(R"({"amount":1,"\u0061mount":2})"), HasSubstr("one member name twice"));
  EXPECT_THAT(Canonical("{\"\U0001F600\":1,\"\\ud83d\\ude00\":2}"),
              HasSubstr("one member name twice"));
  EXPECT_THAT(Canonical(R"({"\/":1,"/":2})"), HasSubstr("one member name twice"));
}

TEST(CanonicalJson, TakesOneNameInDifferentObjects) {
  EXPECT_EQ(Canonical(R"({"a":{"a":[{"a":1},{"a":1}]}})"), R"({"a":{"a":[{"a":1},{"a":1}]}})");
}

TEST(CanonicalJson, RefusesInvalidUtf8) {
  for (const char* text :
       {"\xff", "\x80", "\xc0\xaf", "\xc3", "\xe2\x82", "\xe0\x80\xaf", "\xed\xa0\x80",
        "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_THAT(Canonical(absl::StrCat("\"", text, "\"")), HasSubstr("invalid UTF-8"));
    EXPECT_THAT(Canonical(absl::StrCat("{\"", text, "\":1}")), HasSubstr("invalid UTF-8"));
  }
}

TEST(CanonicalJson, TakesTheFirstAndLastCharacterOfEachUtf8Length) {
  const std::string text = "\"\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010FFFF\"";
  EXPECT_EQ(Canonical(text), text);
}

TEST(CanonicalJson, RefusesLoneSurrogates) {
  for (const char* text : {R"("\ud83d")", R"("\ude00")", R"("\ude00\ud83d")", R"("\ud83dx")",
                           R"("\ud83d\n")", R"("\ud83d\ud83d\ude00")", R"("\uD83D\u0041")"}) {
    EXPECT_THAT(Canonical(text), HasSubstr("lone surrogate")) << text;
  }
}

TEST(CanonicalJson, RefusesAByteOrderMark) {
  EXPECT_THAT(Canonical("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(Canonical(" \xef\xbb\xbf{}"), HasSubstr("syntax error"));
}

TEST(CanonicalJson, RefusesANulWhereverItIs) {
  using namespace std::string_literals;
  for (const std::string& document :
       {"{}\0"s, "\0{}"s, "{\0}"s, "[1\0]"s, "\"\0\""s, "{}\0{}"s, "12\0"s, "\0"s}) {
    EXPECT_EQ(Canonical(document),
              absl::StrCat("JSON body: a NUL byte near byte ", document.find('\0')));
  }
}

TEST(CanonicalJson, RefusesAnythingAfterTheDocument) {
  for (const char* document : {"{}{}", "{} x", "1 2", "[]]", "null,", "\"\"\"", "{}//", "{}/**/"}) {
    const std::string message = Canonical(document);
    EXPECT_THAT(message, HasSubstr("JSON body: ")) << document;
  }
  EXPECT_THAT(Canonical("{} {}"), HasSubstr("something after the document"));
}

TEST(CanonicalJson, RefusesWhatIsNoJson) {
  for (const char* document :
       {"",        "  ",          "NaN",       "Infinity", "-Infinity", "nan",       "TRUE",
        "nul",     "{",           "[",         "[1",       "{\"a\"",    "{\"a\":",   "{\"a\":1",
        "[1,]",    "{\"a\":1,}",  "[,1]",      "{,}",      "{1:2}",     "{a:1}",     "{'a':1}",
        "'a'",     "[1 2]",       "{\"a\" 1}", "+1",       ".5",        "5.",        "1.e5",
        "01",      "-01",         "-",         "1e",       "1e+",       "0x10",      "1_000",
        "1,5",     "--1",         "\"",        "\"\\",     "\"\\x\"",   "\"\\u12\"", "\"\\u12g4\"",
        "\"\\u\"", "\"\\U0041\"", "\"a\nb\"",  "\"\x01\"", "\"\t\"",    "/*c*/1",    "1//c",
        "#1",      "\v1",         "\f1",       "\u00a01",  "]",         "}"}) {
    EXPECT_THAT(Canonical(document), HasSubstr("JSON body: ")) << document;
  }
}

TEST(CanonicalJson, RefusesNumbersOutOfRangeOfADouble) {
  EXPECT_THAT(Canonical("[1e400]"), HasSubstr("too large for a double"));
  EXPECT_THAT(Canonical("[-1e999999999999]"), HasSubstr("too large for a double"));
  EXPECT_THAT(Canonical("[1e-400]"), HasSubstr("too small for a double"));
  EXPECT_EQ(Canonical("[0e999999999,0e-999999999]"), "[0,0]");
}

TEST(CanonicalJson, TakesNestingAtTheBoundAndRefusesOneMore) {
  const std::string arrays = absl::StrCat(Times(kMaxJsonDepth, "["), Times(kMaxJsonDepth, "]"));
  EXPECT_EQ(Canonical(arrays), arrays);
  EXPECT_THAT(Canonical(absl::StrCat("[", arrays, "]")), HasSubstr("nesting deeper than 64"));
  const std::string objects =
      absl::StrCat(Times(kMaxJsonDepth, "{\"a\":"), "1", Times(kMaxJsonDepth, "}"));
  EXPECT_EQ(Canonical(objects), objects);
  EXPECT_THAT(Canonical(absl::StrCat("{\"a\":", objects, "}")),
              HasSubstr("nesting deeper than 64"));
}

TEST(CanonicalJson, CountsNestingAndNotTheNumberOfArrays) {
  const std::string document = absl::StrCat("[[]", Times(100, ",[[]]"), "]");
  EXPECT_EQ(Canonical(document), document);
}

TEST(CanonicalJson, NamesTheByteNearTheFault) {
  EXPECT_EQ(Canonical("[1,x]"), "JSON body: syntax error near byte 3");
  EXPECT_EQ(Canonical("[1, 1e999 ]"), "JSON body: a number too large for a double near byte 9");
  EXPECT_EQ(Canonical("{\"a\":1,\"a\":2}"),
            "JSON body: an object with one member name twice ends near byte 12");
  EXPECT_EQ(Canonical("[1"), "JSON body: the end comes too early near byte 1");
}

TEST(CanonicalJson, RepeatsNothingOfTheBodyInAnError) {
  for (const char* document :
       {R"({"secret4111":1,"secret4111":2})", R"({"secret4111)", R"(secret4111)",
        R"(["secret4111" x)", R"(4111e4111)", R"([4111e-4111])", R"(4111 4111)",
        "\"secret4111\xff\"", "\"secret4111\x01\"", R"("secret4111\ud800")",
        R"("; last read: secret4111 lone \x")"}) {
    const std::string message = Canonical(document);
    EXPECT_THAT(message, HasSubstr("JSON body: "));
    EXPECT_THAT(message, Not(HasSubstr("secret"))) << document;
    EXPECT_THAT(message, Not(HasSubstr("4111"))) << document;
  }
}

}  // namespace
}  // namespace idempotency
