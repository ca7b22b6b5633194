// One row of the table of settings, and how its value is read and shown.
//
// The table (setting_table.h) is the only list of settings: flags, environment variables, the
// configuration file, help and docs/configuration.md all come from its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/log.h"

namespace idempotency {

// The commands that use a setting, as bits.
using CommandSet = unsigned;
inline constexpr CommandSet kServeCommand = 1;
inline constexpr CommandSet kDevCommand = 2;
inline constexpr CommandSet kMigrateCommand = 4;
inline constexpr CommandSet kHealthcheckCommand = 8;
inline constexpr CommandSet kServingCommands = kServeCommand | kDevCommand;

struct SettingRow {
  // As in `batch.max_items`: nested nouns, the leaf says the bound. Flag, variable and place in the
  // file follow from it.
  std::string name;
  // One sentence's worth for the help and the docs: what it is, what happens at the bound.
  std::string meaning;

  // Where the value lives: exactly one is set. They point into the Settings that the table was made
  // for.
  absl::Duration* span = nullptr;
  size_t* size = nullptr;
  int* number = nullptr;
  bool* toggle = nullptr;
  LogLevel* level = nullptr;
  std::string* text = nullptr;
  // Or none of them: the path of a file that holds the secret of this name.
  std::string file_of;

  // Bounds of a span, or of a number.
  absl::Duration shortest, longest;
  int64_t lowest = 0, highest = 0;
  // What a span must be a multiple of.
  absl::Duration unit = absl::Milliseconds(1);
  // Spans only: "off" is allowed and means never.
  bool may_be_off = false;
  // Texts only: all that is allowed; empty: whatever `check` takes. A check's message says what is
  // allowed and never repeats the value.
  std::vector<std::string> choices;
  absl::Status (*check)(absl::string_view) = nullptr;

  // Never shown, nor repeated in a message; may also be given as a file. `mask` makes of its value
  // what may be shown; null: nothing but that it is set.
  bool is_secret = false;
  std::string (*mask)(const std::string&) = nullptr;

  CommandSet commands = kServingCommands;
  bool in_environment = true;
  bool in_file = true;
};

// Constructors of rows, for the table.
SettingRow Span(std::string name, absl::Duration* value, absl::Duration shortest,
                absl::Duration longest, std::string meaning);
SettingRow Size(std::string name, size_t* value, int64_t lowest, int64_t highest,
                std::string meaning);
SettingRow Number(std::string name, int* value, int64_t lowest, int64_t highest,
                  std::string meaning);
SettingRow Toggle(std::string name, bool* value, std::string meaning);
SettingRow Text(std::string name, std::string* value, std::string meaning);
// The second row that comes with each secret: `<name>_file`.
SettingRow SecretFile(const SettingRow& secret);

// "--batch-max-items" and "IDEMPOTENCY_BATCH_MAX_ITEMS" of "batch.max_items".
std::string FlagOf(absl::string_view name);
std::string VariableOf(absl::string_view name);

// The value as it would be given on the command line; "" for a text that is not set, and for the
// path of a secret's file. Not masked.
std::string ValueText(const SettingRow& row);
// What is allowed: "1s to 1h", "1 to 4096", "true or false"; "" for a text without bounds.
std::string BoundsText(const SettingRow& row);

// Sets the value from its text. With `unsafe` only what no code could run with is refused.
// kInvalidArgument names what is allowed, and never repeats the text.
// REQUIRES: row.file_of is empty.
absl::Status SetFromText(const SettingRow& row, absl::string_view text, bool unsafe);

}  // namespace idempotency
