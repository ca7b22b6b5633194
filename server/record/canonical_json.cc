#include "server/record/canonical_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "server/record/canonical_number.h"

namespace idempotency {
namespace {

using Json = nlohmann::json;

absl::Status Fault(absl::string_view what, size_t offset) {
  return absl::InvalidArgumentError(absl::StrCat("JSON body: ", what, " near byte ", offset));
}

// Reads the document for nlohmann's lexer and publishes how far it has read: its SAX events carry
// no position.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  // `read_until`, which must outlive the iterator and its copies, is moved along with whichever
  // copy is advanced.
  TrackingIterator(const char* at, const char** read_until) : at_(at), read_until_(read_until) {}

  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *read_until_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** read_until_;
};

// Canonical text in which a long run of zeros takes three bytes: a NUL, which canonical JSON never
// contains, and the count in two bytes, high byte first. It keeps a megabyte of numbers like 3e-324
// from becoming fifty.
constexpr char kZeroRun = '\0';
constexpr size_t kZeroRunBytes = 3;
static_assert(kMaxCanonicalZeros <= UINT16_MAX);

void AppendZeros(size_t count, std::string* text) {
  IDEM_CHECK(count <= kMaxCanonicalZeros);
  if (count <= kZeroRunBytes) {
    text->append(count, '0');
    return;
  }
  text->push_back(kZeroRun);
  text->push_back(static_cast<char>(count >> 8));
  text->push_back(static_cast<char>(count & 0xff));
}

void EmitText(absl::string_view text, absl::FunctionRef<void(absl::string_view)> sink) {
  static const std::string* const zeros = new std::string(kMaxCanonicalZeros, '0');
  while (!text.empty()) {
    const size_t run = std::min(text.find(kZeroRun), text.size());
    if (run > 0) {
      sink(text.substr(0, run));
      text.remove_prefix(run);
    }
    if (!text.empty()) {
      const size_t count = static_cast<size_t>(static_cast<uint8_t>(text[1])) << 8 |
                           static_cast<size_t>(static_cast<uint8_t>(text[2]));
      sink(absl::string_view(*zeros).substr(0, count));
      text.remove_prefix(kZeroRunBytes);
    }
  }
}

// RFC 8785, section 3.2.2.2: the two-character escapes where there is one, \u00xx for other control
// characters, everything else as it is.
void AppendString(absl::string_view value, std::string* text) {
  static constexpr char kHex[] = "0123456789abcdef";
  text->push_back('"');
  size_t plain_from = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const uint8_t c = static_cast<uint8_t>(value[i]);
    if (c >= 0x20 && c != '"' && c != '\\') {
      continue;
    }
    text->append(value.data() + plain_from, i - plain_from);
    plain_from = i + 1;
    text->push_back('\\');
    static constexpr absl::string_view kShort = "\b\t\n\f\r\"\\";
    static constexpr absl::string_view kLetter = "btnfr\"\\";
    if (const size_t found = kShort.find(static_cast<char>(c)); found != kShort.npos) {
      text->push_back(kLetter[found]);
    } else {
      text->append("u00");
      text->push_back(kHex[c >> 4]);
      text->push_back(kHex[c & 0xf]);
    }
  }
  text->append(value.data() + plain_from, value.size() - plain_from);
  text->push_back('"');
}

// The order of the UTF-16 code units of two valid UTF-8 texts. It is the order of their bytes, but
// characters beyond U+FFFF (first byte F0-F4) are surrogates in UTF-16, so they come before
// U+E000-U+FFFF (first byte EE, EF).
bool LessInUtf16(absl::string_view a, absl::string_view b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at_a == a.end() || at_b == b.end()) {
    return at_a == a.end() && at_b != b.end();
  }
  const uint8_t byte_a = static_cast<uint8_t>(*at_a);
  const uint8_t byte_b = static_cast<uint8_t>(*at_b);
  if (byte_a >= 0xee && byte_b >= 0xee) {
    const bool beyond_a = byte_a >= 0xf0;
    const bool beyond_b = byte_b >= 0xf0;
    if (beyond_a != beyond_b) {
      return beyond_a;
    }
  }
  return byte_a < byte_b;
}

// What is wrong, in our words: nlohmann's own message goes on to quote the document.
absl::string_view Describe(const nlohmann::detail::exception& error) {
  absl::string_view message = error.what();
  message = message.substr(0, message.find("; last read"));
  static constexpr struct {
    absl::string_view in_message;
    absl::string_view description;
  } kDescriptions[] = {
      {"number overflow", "a number too large for a double"},
      {"ill-formed UTF-8", "invalid UTF-8 in a string"},
      {"surrogate", "a lone surrogate in a string"},
      {"control character", "an unescaped control character in a string"},
      {"missing closing quote", "a string without end"},
      {"unexpected end of input", "the end comes too early"},
      {"expected end of input", "something after the document"},
  };
  for (const auto& row : kDescriptions) {
    if (absl::StrContains(message, row.in_message)) {
      return row.description;
    }
  }
  return "syntax error";
}

// Receives nlohmann's events and writes the canonical text as it goes; an object's members are
// brought into order where the object ends. A byte is moved at most once per level it is nested in,
// so the depth limit keeps this linear.
class Canonicalizer final : public nlohmann::json_sax<Json> {
 public:
  // `document` and `*read_until`, the end of what the parser has read of it, must outlive this.
  Canonicalizer(absl::string_view document, const char* const* read_until)
      : document_(document), read_until_(read_until) {
    text_.reserve(document.size());
    frames_.reserve(kMaxJsonDepth);
  }

  // The fault that stopped the parser, or OK.
  const absl::Status& status() const { return status_; }
  // The canonical text with runs of zeros, complete once the parser has succeeded.
  absl::string_view text() const { return text_; }

  bool null() override { return Literal("null"); }
  bool boolean(bool value) override { return Literal(value ? "true" : "false"); }
  // Integers of 64 bits come as such, exactly. Below 1e21 both of canonical_number.h's spellings
  // are the plain digits.
  bool number_integer(int64_t value) override { return Literal(absl::StrCat(value)); }
  bool number_unsigned(uint64_t value) override { return Literal(absl::StrCat(value)); }

  // The double is ignored. `literal` is the text, only that the lexer has put the C locale's
  // decimal point in it.
  bool number_float(double, const std::string& literal) override {
    CanonicalNumber number;
    switch (SpellNumber(literal, &number)) {
      case NumberFault::kTooLarge:
        return Stop("a number too large for a double");
      case NumberFault::kTooSmall:
        return Stop("a number too small for a double, but not zero");
      case NumberFault::kNone:
        break;
    }
    BeginValue();
    text_ += number.head;
    AppendZeros(number.zeros, &text_);
    text_ += number.tail;
    return true;
  }

  bool string(std::string& value) override {
    BeginValue();
    AppendString(value, &text_);
    return true;
  }

  bool binary(Json::binary_t&) override { return Stop("a binary value"); }

  bool start_array(size_t) override { return Open('['); }
  bool end_array() override {
    frames_.pop_back();
    text_.push_back(']');
    return true;
  }

  bool start_object(size_t) override { return Open('{'); }
  bool key(std::string& name) override {
    EndMember();
    Frame& frame = frames_.back();
    if (!frame.empty) {
      text_.push_back(',');
    }
    frame.empty = false;
    members_.push_back({names_.size(), name.size(), text_.size(), 0});
    names_ += name;
    AppendString(name, &text_);
    text_.push_back(':');
    return true;
  }
  bool end_object() override {
    EndMember();
    const Frame frame = frames_.back();
    if (!SortMembers(frame)) {
      return Stop("an object with one member name twice ends");
    }
    members_.resize(frame.first_member);
    names_.resize(frame.first_name);
    frames_.pop_back();
    text_.push_back('}');
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return Stop(Describe(error));
  }

 private:
  // A member of an object that has not ended yet: its name in names_, and `"name":value` in text_.
  struct Member {
    size_t name_begin;
    size_t name_size;
    size_t text_begin;
    size_t text_end;
  };

  // An array or object that has not ended yet.
  struct Frame {
    bool is_object;
    bool empty;
    size_t first_member;
    size_t first_name;
  };

  bool Stop(absl::string_view what) {
    const size_t read = static_cast<size_t>(*read_until_ - document_.data());
    status_ = Fault(what, read == 0 ? 0 : read - 1);
    return false;
  }

  bool Literal(absl::string_view value) {
    BeginValue();
    text_.append(value.data(), value.size());
    return true;
  }

  // In an array a comma goes between values; in an object key() writes it.
  void BeginValue() {
    if (frames_.empty() || frames_.back().is_object) {
      return;
    }
    if (!frames_.back().empty) {
      text_.push_back(',');
    }
    frames_.back().empty = false;
  }

  bool Open(char bracket) {
    if (frames_.size() == kMaxJsonDepth) {
      return Stop(absl::StrCat("nesting deeper than ", kMaxJsonDepth));
    }
    BeginValue();
    frames_.push_back({bracket == '{', true, members_.size(), names_.size()});
    text_.push_back(bracket);
    return true;
  }

  void EndMember() {
    if (!frames_.back().empty) {
      members_.back().text_end = text_.size();
    }
  }

  absl::string_view NameOf(const Member& member) const {
    return absl::string_view(names_).substr(member.name_begin, member.name_size);
  }

  // Brings the members of the object that is ending into order. False if two have the same name.
  bool SortMembers(const Frame& frame) {
    const auto first = members_.begin() + static_cast<std::ptrdiff_t>(frame.first_member);
    const auto less = [this](const Member& a, const Member& b) {
      return LessInUtf16(NameOf(a), NameOf(b));
    };
    const bool sorted = std::is_sorted(first, members_.end(), less);
    const size_t text_begin = first == members_.end() ? 0 : first->text_begin;
    if (!sorted) {
      std::sort(first, members_.end(), less);
    }
    const auto same = [this](const Member& a, const Member& b) { return NameOf(a) == NameOf(b); };
    if (std::adjacent_find(first, members_.end(), same) != members_.end()) {
      return false;
    }
    if (!sorted) {
      scratch_.clear();
      for (auto member = first; member != members_.end(); ++member) {
        if (member != first) {
          scratch_.push_back(',');
        }
        scratch_.append(text_, member->text_begin, member->text_end - member->text_begin);
      }
      IDEM_CHECK(scratch_.size() == text_.size() - text_begin);
      text_.replace(text_begin, scratch_.size(), scratch_);
    }
    return true;
  }

  const absl::string_view document_;
  const char* const* const read_until_;
  absl::Status status_;
  std::string text_;
  std::string scratch_;
  std::string names_;
  std::vector<Frame> frames_;
  std::vector<Member> members_;
};

}  // namespace

absl::Status CanonicalizeJson(absl::string_view document,
                              absl::FunctionRef<void(absl::string_view)> sink) {
  // nlohmann 3.11.2 takes a NUL for the end of input and skips a byte order mark. Neither is ever
  // valid.
  if (const size_t nul = document.find('\0'); nul != absl::string_view::npos) {
    return Fault("a NUL byte", nul);
  }
  if (absl::StartsWith(document, "\xef\xbb\xbf")) {
    return Fault("a byte order mark", 0);
  }
  const char* read_until = document.data();
  Canonicalizer canonicalizer(document, &read_until);
  const TrackingIterator begin(document.data(), &read_until);
  const TrackingIterator end(document.data() + document.size(), &read_until);
  if (!Json::sax_parse(begin, end, &canonicalizer)) {
    IDEM_CHECK(!canonicalizer.status().ok()) << "the parser failed without an error";
    return canonicalizer.status();
  }
  EmitText(canonicalizer.text(), sink);
  return absl::OkStatus();
}

}  // namespace idempotency
