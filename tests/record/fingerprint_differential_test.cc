// Random JSON documents, each written in two ways: one fingerprint; and with one value changed:
// another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/record/fingerprint.h"

namespace idempotency {
namespace {

// A document, apart from any spelling of it.
struct Value {
  enum Kind { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject } kind = kNull;
  // A number is DIGITS * 10^exponent, negated if `negative`. DIGITS does not begin with 0 and is
  // not empty.
  bool negative = false;
  std::string digits;
  int exponent = 0;
  std::u32string text;
  std::vector<Value> items;
  std::vector<std::u32string> names;  // of the items of an object
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // 0 <= result < bound
  int Below(int bound) { return static_cast<int>(engine_() % static_cast<uint64_t>(bound)); }
  bool OneIn(int n) { return Below(n) == 0; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

std::u32string RandomText(Random& random) {
  static constexpr char32_t kCharacters[] = {
      'a',   'b',    'Z',    '0',    ' ',    '"',    '\\',    '/',     '\n',
      '\r',  '\t',   '\b',   '\f',   0,      0x1f,   0x7f,    0x80,    0xe9,
      0x301, 0x20ac, 0xd7ff, 0xe000, 0xfb33, 0xffff, 0x10000, 0x1f600, 0x10ffff};
  std::u32string text;
  for (int i = random.Below(6); i > 0; --i) {
    text.push_back(kCharacters[random.Below(std::size(kCharacters))]);
  }
  return text;
}

Value RandomNumber(Random& random) {
  Value value;
  value.kind = Value::kNumber;
  value.negative = random.OneIn(3);
  value.digits.push_back(static_cast<char>('1' + random.Below(9)));
  for (int i = random.Below(random.OneIn(2) ? 4 : 25); i > 0; --i) {
    value.digits.push_back(static_cast<char>('0' + random.Below(10)));
  }
  value.exponent = random.OneIn(4) ? random.Below(500) - 280 : random.Below(8) - 4;
  return value;
}

Value RandomValue(Random& random, int depth) {
  Value value;
  const int choice = random.Below(depth > 0 ? 12 : 7);
  if (choice < 3) {
    return RandomNumber(random);
  }
  if (choice < 5) {
    value.kind = Value::kString;
    value.text = RandomText(random);
  } else if (choice < 7) {
    static constexpr Value::Kind kKinds[] = {Value::kNull, Value::kTrue, Value::kFalse};
    value.kind = kKinds[random.Below(3)];
  } else {
    value.kind = choice < 9 ? Value::kArray : Value::kObject;
    for (int i = random.Below(6); i > 0; --i) {
      value.items.push_back(RandomValue(random, depth - 1));
      std::u32string name = RandomText(random);
      name.push_back(U'0' + static_cast<char32_t>(i));  // names of one object differ
      value.names.push_back(std::move(name));
    }
  }
  return value;
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto byte = [out](char32_t bits) { out->push_back(static_cast<char>(bits)); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | c >> 6);
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3f));
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

// Writes a document in one of its many spellings.
class Writer {
 public:
  explicit Writer(Random& random) : random_(random) {}

  std::string Write(const Value& value) {
    out_.clear();
    WriteValue(value);
    return out_;
  }

 private:
  void WriteValue(const Value& value) {
    Space();
    switch (value.kind) {
      case Value::kNull:
        out_ += "null";
        break;
      case Value::kTrue:
        out_ += "true";
        break;
      case Value::kFalse:
        out_ += "false";
        break;
      case Value::kNumber:
        WriteNumber(value);
        break;
      case Value::kString:
        WriteText(value.text);
        break;
      case Value::kArray:
      case Value::kObject:
        WriteItems(value);
        break;
    }
    Space();
  }

  void WriteItems(const Value& value) {
    const bool object = value.kind == Value::kObject;
    std::vector<size_t> order(value.items.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    if (object) {
      std::shuffle(order.begin(), order.end(), random_.engine());
    }
    out_ += object ? '{' : '[';
    Space();
    for (const size_t i : order) {
      if (i != order.front()) {
        out_ += ',';
      }
      if (object) {
        Space();
        WriteText(value.names[i]);
        Space();
        out_ += ':';
      }
      WriteValue(value.items[i]);
    }
    out_ += object ? '}' : ']';
  }

  // Adds zeros at the end, puts the point anywhere, and lets the exponent make up for both.
  void WriteNumber(const Value& value) {
    const int zeros = random_.Below(4);
    const std::string digits = absl::StrCat(value.digits, std::string(zeros, '0'));
    const int whole = random_.Below(static_cast<int>(digits.size()) + 1);
    const std::string fraction = digits.substr(whole);
    const int exponent = value.exponent - zeros + static_cast<int>(fraction.size());
    absl::StrAppend(&out_, value.negative ? "-" : "", whole == 0 ? "0" : digits.substr(0, whole),
                    fraction.empty() ? "" : ".", fraction);
    if (exponent != 0 || random_.OneIn(2)) {
      const char* plus = exponent >= 0 && random_.OneIn(2) ? "+" : "";
      absl::StrAppend(&out_, random_.OneIn(2) ? "e" : "E", exponent < 0 ? "-" : plus,
                      random_.OneIn(4) ? "00" : "", std::abs(exponent));
    }
  }

  void WriteText(const std::u32string& text) {
    static constexpr absl::string_view kNamed = "\"\\/\b\f\n\r\t";
    static constexpr absl::string_view kLetters = "\"\\/bfnrt";
    out_ += '"';
    for (const char32_t c : text) {
      const size_t named = c != 0 && c < 0x80 ? kNamed.find(static_cast<char>(c)) : kNamed.npos;
      const bool plain = c >= 0x20 && c != '"' && c != '\\';
      const int style = random_.Below(3);
      if (named != kNamed.npos && style == 0) {
        out_ += '\\';
        out_ += kLetters[named];
      } else if (plain && style != 1) {
        AppendUtf8(c, &out_);
      } else if (c < 0x10000) {
        WriteUnit(c);
      } else {
        WriteUnit(0xd800 + ((c - 0x10000) >> 10));
        WriteUnit(0xdc00 + ((c - 0x10000) & 0x3ff));
      }
    }
    out_ += '"';
  }

  void WriteUnit(char32_t unit) {
    const auto bits = static_cast<uint32_t>(unit);
    absl::StrAppend(
        &out_, "\\u",
        random_.OneIn(2) ? absl::StrFormat("%04x", bits) : absl::StrFormat("%04X", bits));
  }

  void Space() {
    for (int i = std::max(0, random_.Below(6) - 3); i > 0; --i) {
      out_ += " \t\r\n"[random_.Below(4)];
    }
  }

  Random& random_;
  std::string out_;
};

// The document's scalars and empty arrays and objects; never none.
void CollectLeaves(Value* value, std::vector<Value*>* leaves) {
  if (value->items.empty()) {
    leaves->push_back(value);
  }
  for (Value& item : value->items) {
    CollectLeaves(&item, leaves);
  }
}

// Makes another value of one leaf.
void Mutate(Random& random, Value* document) {
  std::vector<Value*> leaves;
  CollectLeaves(document, &leaves);
  Value& leaf = *leaves[random.Below(static_cast<int>(leaves.size()))];
  switch (leaf.kind) {
    case Value::kNull:
      leaf.kind = Value::kFalse;
      break;
    case Value::kTrue:
      leaf.kind = Value::kFalse;
      break;
    case Value::kFalse:
      leaf.kind = Value::kTrue;
      break;
    case Value::kNumber:
      if (random.OneIn(3)) {
        leaf.negative = !leaf.negative;
      } else {
        char& digit = leaf.digits.back();
        digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
      }
      break;
    case Value::kString:
      leaf.text.push_back(U'x');
      break;
    case Value::kArray:
      leaf.kind = Value::kObject;
      break;
    case Value::kObject:
      leaf.kind = Value::kArray;
      break;
  }
}

class FingerprintDifferential : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FingerprintDifferential, IsOnePerDocumentAndChangesWithAnyValue) {
  Random random(GetParam());
  Writer writer(random);
  for (int round = 0; round < 500; ++round) {
    Value document = RandomValue(random, 4);
    const std::string first = writer.Write(document);
    const std::string second = writer.Write(document);
    SCOPED_TRACE(absl::StrCat("round ", round, "\n", first, "\n", second));
    const absl::StatusOr<Fingerprint> fingerprint = FingerprintOf("application/json", first);
    ASSERT_TRUE(fingerprint.ok()) << fingerprint.status();
    ASSERT_EQ(FingerprintOf("application/json", second).value(), *fingerprint);

    const absl::StatusOr<std::string> canonical = CanonicalBody("application/json", second);
    ASSERT_EQ(CanonicalBody("application/json", *canonical).value(), *canonical);

    Mutate(random, &document);
    const std::string other = writer.Write(document);
    ASSERT_NE(FingerprintOf("application/json", other).value(), *fingerprint) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FingerprintDifferential, ::testing::Values(1, 2, 3, 20250101));

}  // namespace
}  // namespace idempotency
