// Structured logs: one JSON object a line, for machines first.
//
//   {"time":"2026-01-01T00:00:00.000000Z","level":"info","event":"takeover","merchant":"acme"}
//
// `time` (RFC 3339, microseconds, UTC, taken when the line was made), `level` and `event` come
// first, then the fields in the order given. The event is a constant in snake case that names what
// happened; whatever varies is a field.
//
// Two paths. Ordinary lines go through a bounded queue and never make their caller wait: when the
// output cannot keep up, the oldest queued lines are dropped and counted. Audit lines (outcome
// conflict, takeover, sweep, refused outcome) say what may have happened to money: they are never
// dropped, their own queue makes the caller wait when it is full, and no level hides them. Lines of
// the two paths may therefore appear out of order; `time` orders them.
//
// Bounds. A text value of more than Log::kMaxValueBytes is cut before the character that crosses
// it and ends in a mark that gives its whole size: "abc… (5000 bytes)". Fields that would take a
// line past Log::kMaxLineBytes are left out and the line ends in "truncated":true. Bytes that are
// no UTF-8 appear as U+FFFD. NaN and infinities appear as null.
//
// No secret belongs in a field: the caller keeps bodies, tokens and attempt ids out.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"

namespace idempotency {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// "debug", "info", "warn", "error".
absl::string_view LogLevelName(LogLevel level);
// The level of that name, or nothing.
std::optional<LogLevel> ParseLogLevel(absl::string_view name);

// One name and value of a line. Keeps views: name and value must outlive the call that it is given
// to, which temporaries in the call's own argument list do.
class LogField {
 public:
  // The name is snake case and none of time, level, event, truncated; one line has a name once.
  LogField(absl::string_view name, absl::string_view value) : name_(name), value_(value) {}
  LogField(absl::string_view name, const char* value)
      : name_(name), value_(absl::string_view(value)) {}
  LogField(absl::string_view name, const std::string& value)
      : name_(name), value_(absl::string_view(value)) {}
  LogField(absl::string_view name, bool value) : name_(name), value_(value) {}
  LogField(absl::string_view name, double value) : name_(name), value_(value) {}
  template <std::signed_integral T>
  LogField(absl::string_view name, T value) : name_(name), value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogField(absl::string_view name, T value)
      : name_(name), value_(static_cast<uint64_t>(value)) {}

  // A text that is left out, name and all, when it is empty.
  static LogField IfAny(absl::string_view name, absl::string_view value) {
    LogField field(name, value);
    field.is_left_out_ = value.empty();
    return field;
  }

  absl::string_view name() const { return name_; }
  bool is_left_out() const { return is_left_out_; }
  const std::variant<absl::string_view, int64_t, uint64_t, double, bool>& value() const {
    return value_;
  }

 private:
  absl::string_view name_;
  std::variant<absl::string_view, int64_t, uint64_t, double, bool> value_;
  bool is_left_out_ = false;
};

struct LogOptions {
  // Where lines go. Null: the process's stderr. Otherwise it must outlive the Log, and only the Log
  // may write to it.
  std::ostream* output = nullptr;
  // Ordinary lines below this are left out.
  LogLevel level = LogLevel::kInfo;
  // Null: SystemClock().
  Clock* clock = nullptr;
  // Counts dropped lines as Metric::kLogDropped, as they are dropped. May be null, else must
  // outlive the Log.
  Metrics* metrics = nullptr;
  // Lines that may be queued. With the largest lines these defaults hold 40 MiB, with usual ones
  // about 3 MiB.
  size_t max_queued_lines = 4096;
  size_t max_queued_audit_lines = 1024;
};

// Thread-safe. Owns one thread for each of its two queues. A failing output (disk full, a closed
// pipe) never reaches the callers; such lines count as dropped.
class Log {
 public:
  static constexpr size_t kMaxValueBytes = 1024;
  static constexpr size_t kMaxLineBytes = 8192;

  using Fields = std::initializer_list<LogField>;

  explicit Log(const LogOptions& options = {});
  // As Stop().
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Queues an ordinary line. Never waits.
  void Write(LogLevel level, absl::string_view event, Fields fields = {});
  void Debug(absl::string_view event, Fields fields = {}) {
    Write(LogLevel::kDebug, event, fields);
  }
  void Info(absl::string_view event, Fields fields = {}) { Write(LogLevel::kInfo, event, fields); }
  void Warn(absl::string_view event, Fields fields = {}) { Write(LogLevel::kWarn, event, fields); }
  void Error(absl::string_view event, Fields fields = {}) {
    Write(LogLevel::kError, event, fields);
  }

  // Queues an audit line, whatever the level set. Waits while the audit queue is full.
  void Audit(LogLevel level, absl::string_view event, Fields fields = {});

  // Whether an ordinary line of `level` would be written: lets a caller skip costly fields.
  bool Enabled(LogLevel level) const;
  void SetLevel(LogLevel level);

  // Ordinary lines dropped by a full queue, plus lines that the output refused. Only grows.
  uint64_t DroppedLines() const;

  // Writes everything queued, flushes the output and ends the threads; says so in a last line if
  // lines were dropped. Lines that come later are written by their callers themselves. Idempotent.
  void Stop();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace idempotency
