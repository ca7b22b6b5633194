#include "server/base/log.h"

#include <atomic>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/base/mutex.h"
#include "spdlog/async.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace idempotency {
namespace {

constexpr absl::string_view kTruncatedEnd = ",\"truncated\":true}";

// JSON of a text, quotes included. Never throws for what the text holds.
std::string Quoted(absl::string_view text) {
  const nlohmann::json value(std::string(text.data(), text.size()));
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string QuotedWithinBound(absl::string_view text) {
  if (text.size() <= Log::kMaxValueBytes) return Quoted(text);
  size_t end = Log::kMaxValueBytes;
  // A character of UTF-8 has at most three continuation bytes; more of them in a row are no UTF-8
  // anyway.
  for (int step = 0; step < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80; ++step) {
    --end;
  }
  return Quoted(absl::StrCat(text.substr(0, end), "… (", text.size(), " bytes)"));
}

struct ValueToJson {
  std::string operator()(absl::string_view value) const { return QuotedWithinBound(value); }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(uint64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return nlohmann::json(value).dump(); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
};

std::string FormatLine(absl::Time time, LogLevel level, absl::string_view event,
                       Log::Fields fields) {
  std::string line = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E6SZ", time, absl::UTCTimeZone()),
      "\",\"level\":\"", LogLevelName(level), "\",\"event\":", QuotedWithinBound(event));
  for (const LogField& field : fields) {
    if (field.is_left_out()) continue;
    const std::string piece = absl::StrCat(",", QuotedWithinBound(field.name()), ":",
                                           std::visit(ValueToJson(), field.value()));
    if (line.size() + piece.size() + kTruncatedEnd.size() > Log::kMaxLineBytes) {
      absl::StrAppend(&line, kTruncatedEnd);
      return line;
    }
    line += piece;
  }
  line += '}';
  return line;
}

spdlog::sink_ptr MakeSink(std::ostream* output) {
  spdlog::sink_ptr sink;
  if (output == nullptr) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*output);
  }
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  return sink;
}

// One bounded queue and the thread that empties it into the sink.
class Queue {
 public:
  Queue(const spdlog::sink_ptr& sink, size_t max_lines, spdlog::async_overflow_policy policy,
        Metrics* metrics)
      : policy_(policy),
        metrics_(metrics),
        pool_(std::make_shared<spdlog::details::thread_pool>(max_lines, 1)) {
    logger_ = std::make_shared<spdlog::async_logger>("", sink, pool_, policy);
    // spdlog's own handler prints to stderr, which is where the lines go that just failed.
    logger_->set_error_handler([this](const std::string&) { CountRefused(); });
    direct_ = std::make_shared<spdlog::logger>("", sink);
    direct_->set_error_handler([this](const std::string&) { CountRefused(); });
  }

  void Post(const std::string& line) {
    const spdlog::details::log_msg message("", spdlog::level::info, line);
    if (!BeginPost()) {
      direct_->log(spdlog::level::info, line);
      return;
    }
    pool_->post_log(std::shared_ptr<spdlog::async_logger>(logger_), message, policy_);
    EndPost();
  }

  uint64_t Dropped() {
    MutexLock lock(&mu_);
    return refused_ + (pool_ != nullptr ? pool_->overrun_counter() : overrun_at_stop_);
  }

  void Stop() {
    {
      MutexLock lock(&mu_);
      stopped_ = true;
      // Posts that wait for room get it: the thread still runs.
      while (posting_ > 0) no_post_.Wait(&mu_);
    }
    std::shared_ptr<spdlog::details::thread_pool> pool;
    {
      MutexLock lock(&mu_);
      if (pool_ == nullptr) return;
      pool = std::move(pool_);
      overrun_at_stop_ = pool->overrun_counter();
    }
    // Its destructor lets the thread finish what is queued.
    pool.reset();
    direct_->flush();
  }

 private:
  bool BeginPost() {
    MutexLock lock(&mu_);
    if (stopped_) return false;
    ++posting_;
    return true;
  }
  void EndPost() {
    MutexLock lock(&mu_);
    // A full queue drops while a line is posted, never later. The pool stands until no post runs.
    const uint64_t overrun = pool_->overrun_counter();
    CountDropped(overrun - counted_overrun_);
    counted_overrun_ = overrun;
    if (--posting_ == 0 && stopped_) no_post_.NotifyAll();
  }

  void CountRefused() {
    ++refused_;
    CountDropped(1);
  }
  void CountDropped(uint64_t lines) {
    if (metrics_ != nullptr) metrics_->Add(Metric::kLogDropped, static_cast<int64_t>(lines));
  }

  const spdlog::async_overflow_policy policy_;
  Metrics* const metrics_;
  std::shared_ptr<spdlog::async_logger> logger_;
  std::shared_ptr<spdlog::logger> direct_;
  std::atomic<uint64_t> refused_ = 0;

  Mutex mu_;
  CondVar no_post_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  int posting_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t counted_overrun_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t overrun_at_stop_ ABSL_GUARDED_BY(mu_) = 0;
  // Set once before any other thread knows the Queue, taken away by Stop() when nobody is posting
  // any more.
  std::shared_ptr<spdlog::details::thread_pool> pool_;
};

}  // namespace

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

std::optional<LogLevel> ParseLogLevel(absl::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    if (name == LogLevelName(level)) return level;
  }
  return std::nullopt;
}

class Log::Impl {
 public:
  explicit Impl(const LogOptions& options)
      : clock_(options.clock != nullptr ? options.clock : SystemClock()),
        level_(options.level),
        sink_(MakeSink(options.output)),
        ordinary_(sink_, options.max_queued_lines, spdlog::async_overflow_policy::overrun_oldest,
                  options.metrics),
        audit_(sink_, options.max_queued_audit_lines, spdlog::async_overflow_policy::block,
               options.metrics) {}

  std::string Line(LogLevel level, absl::string_view event, Fields fields) {
    return FormatLine(clock_->Now(), level, event, fields);
  }

  Clock* const clock_;
  std::atomic<LogLevel> level_;
  const spdlog::sink_ptr sink_;
  Queue ordinary_;
  Queue audit_;
  std::atomic<bool> reported_ = false;
};

Log::Log(const LogOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Log::~Log() { Stop(); }

void Log::Write(LogLevel level, absl::string_view event, Fields fields) {
  if (Enabled(level)) impl_->ordinary_.Post(impl_->Line(level, event, fields));
}

void Log::Audit(LogLevel level, absl::string_view event, Fields fields) {
  impl_->audit_.Post(impl_->Line(level, event, fields));
}

bool Log::Enabled(LogLevel level) const { return level >= impl_->level_.load(); }

void Log::SetLevel(LogLevel level) { impl_->level_ = level; }

uint64_t Log::DroppedLines() const { return impl_->ordinary_.Dropped() + impl_->audit_.Dropped(); }

void Log::Stop() {
  impl_->ordinary_.Stop();
  impl_->audit_.Stop();
  const uint64_t dropped = DroppedLines();
  if (dropped > 0 && !impl_->reported_.exchange(true)) {
    impl_->audit_.Post(impl_->Line(LogLevel::kWarn, "log_lines_dropped", {{"lines", dropped}}));
  }
}

}  // namespace idempotency
