#include "server/rpc/field_rules.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

constexpr int32_t kMaxNanos = 999'999'999;
// google/protobuf/duration.proto: about 10,000 years.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;

// By protobuf's own rules: both parts in range and not of different signs.
std::optional<absl::Duration> WellFormed(const google::protobuf::Duration& given) {
  const int64_t seconds = given.seconds();
  const int32_t nanos = given.nanos();
  if (seconds > kMaxDurationSeconds || seconds < -kMaxDurationSeconds) return std::nullopt;
  if (nanos > kMaxNanos || nanos < -kMaxNanos) return std::nullopt;
  if ((seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0)) return std::nullopt;
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

constexpr char kMalformedDuration[] =
    "must be a Duration: nanos within 999999999 either way and of the same sign as seconds";

}  // namespace

bool IsPrintableAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

bool HasNoControlCharacters(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    // U+0080 to U+009F are the bytes C2 80 to C2 9F.
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xa0) {
      return false;
    }
  }
  return true;
}

bool IsToken(absl::string_view text) {
  constexpr absl::string_view kMarks = "!#$%&'*+-.^_`|~";
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kMarks.find(c) != absl::string_view::npos;
  });
}

bool IsMerchantId(absl::string_view text) {
  constexpr absl::string_view kMarks = "._:-";
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kMarks.find(c) != absl::string_view::npos;
  });
}

bool CheckLength(absl::string_view path, absl::string_view text, LengthBounds length,
                 Violations* violations) {
  if (text.size() >= length.shortest && text.size() <= length.longest) return true;
  if (text.empty()) {
    violations->Add(std::string(path), absl::StrCat("is required: ", length.shortest, " to ",
                                                    length.longest, " bytes"));
  } else if (length.shortest > 1) {
    violations->Add(std::string(path),
                    absl::StrCat("must be ", length.shortest, " to ", length.longest, " bytes"));
  } else {
    violations->Add(std::string(path), absl::StrCat("must be at most ", length.longest, " bytes"));
  }
  return false;
}

void CheckPrintableAscii(absl::string_view path, absl::string_view text, LengthBounds length,
                         Violations* violations) {
  if (!CheckLength(path, text, length, violations)) return;
  if (!IsPrintableAscii(text)) {
    violations->Add(std::string(path), "must be printable ASCII, the bytes 0x20 to 0x7E");
  }
}

absl::Duration CheckDuration(absl::string_view path, const google::protobuf::Duration* given,
                             const DurationBounds& bounds, absl::Duration unit,
                             Violations* violations) {
  if (given == nullptr) return bounds.standard;
  const std::optional<absl::Duration> span = WellFormed(*given);
  if (!span.has_value()) {
    violations->Add(std::string(path), kMalformedDuration);
    return bounds.standard;
  }
  if (*span < bounds.shortest || *span > bounds.longest) {
    violations->Add(std::string(path),
                    absl::StrCat("must be ", absl::FormatDuration(bounds.shortest), " to ",
                                 absl::FormatDuration(bounds.longest), ", or left out for ",
                                 absl::FormatDuration(bounds.standard)));
    return bounds.standard;
  }
  return absl::Ceil(*span, unit);
}

absl::Duration CheckWait(absl::string_view path, const google::protobuf::Duration* given,
                         Violations* violations) {
  if (given == nullptr) return absl::ZeroDuration();
  const std::optional<absl::Duration> span = WellFormed(*given);
  if (!span.has_value()) {
    violations->Add(std::string(path), kMalformedDuration);
    return absl::ZeroDuration();
  }
  if (*span < absl::ZeroDuration()) {
    violations->Add(std::string(path), "must not be negative");
    return absl::ZeroDuration();
  }
  return std::min(absl::Ceil(*span, absl::Milliseconds(1)), kMaxWait);
}

}  // namespace idempotency
