#include "server/app/config_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/app/file.h"
#include "toml++/toml.h"

namespace idempotency {
namespace {

constexpr char kNameCharacters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.\"[] ";
// What is named in a message is not longer than any name of ours by far.
constexpr size_t kMaxNameBytes = 64;
// In one line, outside of texts. Guessed: names of ours have two at most, and a thousand are no
// trouble yet.
constexpr size_t kMaxDots = 64;

// What the line gives a value to, or the table that it begins; "" when there is none to show.
std::string NameOnLine(absl::string_view content, size_t line) {
  const std::vector<absl::string_view> lines = absl::StrSplit(content, '\n');
  if (line == 0 || line > lines.size()) return "";
  const absl::string_view text = lines[line - 1];
  const size_t end = absl::StartsWith(text, "[") ? text.find(']') : text.find('=');
  if (end == absl::string_view::npos) return "";
  return ShownName(text.substr(0, text[end] == ']' ? end + 1 : end));
}

// The dots of a line that stand outside of texts and comments.
size_t DotsOf(absl::string_view line) {
  size_t dots = 0;
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      break;
    } else if (c == '.') {
      ++dots;
    }
  }
  return dots;
}

absl::Status Refuse(const std::string& path, size_t line, absl::string_view name,
                    absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, name.empty() ? "" : " (", "file ", path, line == 0 ? "" : ":",
                   line == 0 ? "" : absl::StrCat(line), name.empty() ? "" : ")", ": ", why));
}

absl::Status Describe(const toml::parse_error& error, absl::string_view content,
                      const std::string& path) {
  const size_t line = error.source().begin.line;
  const std::string name = NameOnLine(content, line);
  // The parser's reasons repeat what they read. These two are told by their constant parts.
  const absl::string_view reason(error.description().data(), error.description().size());
  if (absl::StrContains(reason, "redefine")) {
    return Refuse(path, line, name, "is given twice in the file");
  }
  if (absl::StrContains(reason, "utf-8")) return Refuse(path, line, "", "is no UTF-8");
  return Refuse(path, line, name,
                absl::StrCat("is no TOML at column ", error.source().begin.column,
                             ": a line is name = value or [table]; texts and spans stand in "
                             "quotes"));
}

void Collect(const toml::table& table, const std::string& prefix, std::vector<FileEntry>* entries) {
  for (const auto& [key, node] : table) {
    FileEntry entry;
    entry.name = absl::StrCat(prefix, absl::string_view(key.str().data(), key.str().size()));
    entry.line = static_cast<int>(key.source().begin.line);
    if (const toml::table* const inner = node.as_table(); inner != nullptr && !inner->empty()) {
      Collect(*inner, absl::StrCat(entry.name, "."), entries);
      continue;
    }
    if (const auto* const text = node.as_string()) {
      entry.kind = FileEntry::Kind::kString;
      entry.text = text->get();
    } else if (const auto* const integer = node.as_integer()) {
      entry.kind = FileEntry::Kind::kInteger;
      entry.text = absl::StrCat(integer->get());
    } else if (const auto* const boolean = node.as_boolean()) {
      entry.kind = FileEntry::Kind::kBoolean;
      entry.text = boolean->get() ? "true" : "false";
    }
    entries->push_back(std::move(entry));
  }
}

}  // namespace

std::string ShownName(absl::string_view name) {
  name = absl::StripAsciiWhitespace(name);
  if (name.empty() || name.size() > kMaxNameBytes ||
      name.find_first_not_of(kNameCharacters) != absl::string_view::npos) {
    return "";
  }
  return std::string(name);
}

absl::StatusOr<std::vector<FileEntry>> ReadConfigFile(const std::string& path) {
  absl::StatusOr<std::string> content = ReadBounded(path, kMaxConfigFileBytes);
  if (!content.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("file ", path, ": ", content.status().message()));
  }
  return ParseConfigFile(*content, path);
}

absl::StatusOr<std::vector<FileEntry>> ParseConfigFile(absl::string_view content,
                                                       const std::string& path) {
  // The parser bounds nested values, but not nested names, and goes down one call for each.
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    if (DotsOf(line) > kMaxDots) {
      return Refuse(path, number, "",
                    absl::StrCat("holds a name of more than ", kMaxDots, " dots"));
    }
  }
  toml::table table;
  try {
    table = toml::parse(std::string_view(content.data(), content.size()));
  } catch (const toml::parse_error& error) {
    return Describe(error, content, path);
  }
  std::vector<FileEntry> entries;
  Collect(table, "", &entries);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return entries;
}

}  // namespace idempotency
