// The settings that are numbers and spans: names, meanings and bounds in one table, so that help,
// parsing and checks cannot differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/app/settings.h"

namespace idempotency {

// One number or span of Settings.
struct Tunable {
  // As in `batch.max_items`: nested nouns, joined by dashes in flags.
  std::string name;
  std::string meaning;
  // Exactly one of the three is set. They point into the Settings the table was made for.
  absl::Duration* span = nullptr;
  size_t* size = nullptr;
  int* number = nullptr;
  // Bounds of a span, or of a number.
  absl::Duration shortest, longest;
  int64_t lowest = 0, highest = 0;
  // What a span must be a multiple of.
  absl::Duration unit = absl::Milliseconds(1);
  // Spans only: "off" is allowed and means never.
  bool may_be_off = false;
};

// `settings` must outlive the table.
std::vector<Tunable> Tunables(Settings* settings);

// The value as it would be given on the command line.
std::string ValueText(const Tunable& tunable);
// "1s to 1h", "1 to 4096".
std::string BoundsText(const Tunable& tunable);

// Sets the value from its text. With `unsafe` only what no code could run with is refused.
// kInvalidArgument names what is allowed.
absl::Status SetFromText(const Tunable& tunable, absl::string_view text, bool unsafe);

// What no single value shows: shortest <= standard <= longest and the like. kInvalidArgument names
// the flags.
absl::Status CheckTogether(const Settings& settings);

}  // namespace idempotency
