#include "server/app/setting_row.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace idempotency {
namespace {

// Far above any path, address or connection string with its hosts.
constexpr size_t kMaxTextBytes = 16 * 1024;

SettingRow Row(std::string name, std::string meaning) {
  SettingRow row;
  row.name = std::move(name);
  row.meaning = std::move(meaning);
  return row;
}

SettingRow Bounded(std::string name, int64_t lowest, int64_t highest, std::string meaning) {
  SettingRow row = Row(std::move(name), std::move(meaning));
  row.lowest = lowest;
  row.highest = highest;
  return row;
}

absl::Status SetSpan(const SettingRow& row, absl::string_view text, bool unsafe) {
  if (row.may_be_off && text == "off") {
    *row.span = absl::InfiniteDuration();
    return absl::OkStatus();
  }
  absl::Duration value;
  const bool is_span = absl::ParseDuration(text, &value) && value != absl::InfiniteDuration() &&
                       value != -absl::InfiniteDuration();
  const absl::Duration shortest =
      unsafe ? std::min(row.shortest, absl::Milliseconds(1)) : row.shortest;
  const absl::Duration unit = unsafe ? absl::Milliseconds(1) : row.unit;
  if (!is_span || value < shortest || value > row.longest || absl::Trunc(value, unit) != value) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a span such as 90s, 15m or 24h: ", BoundsText(row), ", in steps of ",
                     absl::FormatDuration(row.unit)));
  }
  *row.span = value;
  return absl::OkStatus();
}

absl::Status SetNumber(const SettingRow& row, absl::string_view text, bool unsafe) {
  int64_t value = 0;
  const int64_t lowest = unsafe ? std::min<int64_t>(row.lowest, 1) : row.lowest;
  if (!absl::SimpleAtoi(text, &value) || value < lowest || value > row.highest) {
    return absl::InvalidArgumentError(absl::StrCat("must be a whole number: ", BoundsText(row)));
  }
  if (row.size != nullptr) {
    *row.size = static_cast<size_t>(value);
  } else {
    *row.number = static_cast<int>(value);
  }
  return absl::OkStatus();
}

absl::Status SetText(const SettingRow& row, absl::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("must be at most ", kMaxTextBytes, " bytes"));
  }
  // What follows a NUL would be lost without a word wherever the text becomes a C string.
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError("must not hold a NUL byte");
  }
  if (!row.choices.empty() &&
      std::find(row.choices.begin(), row.choices.end(), text) == row.choices.end()) {
    return absl::InvalidArgumentError(absl::StrCat("must be ", BoundsText(row)));
  }
  if (row.check != nullptr) {
    const absl::Status status = row.check(text);
    if (!status.ok()) return status;
  }
  *row.text = std::string(text);
  return absl::OkStatus();
}

}  // namespace

SettingRow Span(std::string name, absl::Duration* value, absl::Duration shortest,
                absl::Duration longest, std::string meaning) {
  SettingRow row = Row(std::move(name), std::move(meaning));
  row.span = value;
  row.shortest = shortest;
  row.longest = longest;
  return row;
}

SettingRow Size(std::string name, size_t* value, int64_t lowest, int64_t highest,
                std::string meaning) {
  SettingRow row = Bounded(std::move(name), lowest, highest, std::move(meaning));
  row.size = value;
  return row;
}

SettingRow Number(std::string name, int* value, int64_t lowest, int64_t highest,
                  std::string meaning) {
  SettingRow row = Bounded(std::move(name), lowest, highest, std::move(meaning));
  row.number = value;
  return row;
}

SettingRow Toggle(std::string name, bool* value, std::string meaning) {
  SettingRow row = Row(std::move(name), std::move(meaning));
  row.toggle = value;
  return row;
}

SettingRow Text(std::string name, std::string* value, std::string meaning) {
  SettingRow row = Row(std::move(name), std::move(meaning));
  row.text = value;
  return row;
}

SettingRow SecretFile(const SettingRow& secret) {
  SettingRow row = Row(
      absl::StrCat(secret.name, "_file"),
      absl::StrCat("path of a file that holds ", secret.name,
                   "; a newline at its end is left out, 16 KiB at most; not beside ", secret.name));
  row.file_of = secret.name;
  row.commands = secret.commands;
  return row;
}

std::string FlagOf(absl::string_view name) {
  return absl::StrCat("--", absl::StrReplaceAll(name, {{".", "-"}, {"_", "-"}}));
}

std::string VariableOf(absl::string_view name) {
  return absl::StrCat("IDEMPOTENCY_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{".", "_"}})));
}

std::string ValueText(const SettingRow& row) {
  if (row.size != nullptr) return absl::StrCat(*row.size);
  if (row.number != nullptr) return absl::StrCat(*row.number);
  if (row.toggle != nullptr) return *row.toggle ? "true" : "false";
  if (row.level != nullptr) return std::string(LogLevelName(*row.level));
  if (row.text != nullptr) return *row.text;
  if (row.span == nullptr) return "";
  if (*row.span == absl::InfiniteDuration()) return "off";
  return absl::FormatDuration(*row.span);
}

std::string BoundsText(const SettingRow& row) {
  if (row.span != nullptr) {
    return absl::StrCat(absl::FormatDuration(row.shortest), " to ",
                        absl::FormatDuration(row.longest), row.may_be_off ? ", or off" : "");
  }
  if (row.size != nullptr || row.number != nullptr) {
    return absl::StrCat(row.lowest, " to ", row.highest);
  }
  if (row.toggle != nullptr) return "true or false";
  if (row.level != nullptr) return "debug, info, warn or error";
  return absl::StrJoin(row.choices, " or ");
}

absl::Status SetFromText(const SettingRow& row, absl::string_view text, bool unsafe) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  if (row.span != nullptr) return SetSpan(row, text, unsafe);
  if (row.text != nullptr) return SetText(row, text);
  if (row.size != nullptr || row.number != nullptr) return SetNumber(row, text, unsafe);
  if (row.toggle != nullptr) {
    if (text != "true" && text != "false" && text != "1" && text != "0") {
      return absl::InvalidArgumentError("must be true or false");
    }
    *row.toggle = text == "true" || text == "1";
    return absl::OkStatus();
  }
  const std::optional<LogLevel> level = ParseLogLevel(text);
  if (!level.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("must be ", BoundsText(row)));
  }
  *row.level = *level;
  return absl::OkStatus();
}

}  // namespace idempotency
