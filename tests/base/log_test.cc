#include "server/base/log.h"

#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.push_back(line);
  return lines;
}

// The lines that `write` makes, after Stop().
template <typename Write>
std::vector<std::string> LinesOf(LogOptions options, Write write) {
  std::ostringstream output;
  FakeClock clock;
  options.output = &output;
  options.clock = &clock;
  Log log(options);
  write(log);
  log.Stop();
  return Lines(output.str());
}

template <typename Write>
nlohmann::json OneLine(Write write) {
  const std::vector<std::string> lines = LinesOf({}, write);
  EXPECT_THAT(lines, SizeIs(1));
  EXPECT_LE(lines.at(0).size(), Log::kMaxLineBytes);
  return nlohmann::json::parse(lines.at(0));
}

// An output that takes nothing until it is opened, and can tell when a writer has come to it.
class GatedBuffer : public std::stringbuf {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitWriter() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return writer_came_; });
  }

 protected:
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    {
      std::unique_lock<std::mutex> lock(mu_);
      writer_came_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    }
    return std::stringbuf::xsputn(data, size);
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
  bool writer_came_ = false;
};

TEST(Log, LineHoldsTimeLevelEventThenFieldsInOrder) {
  const std::vector<std::string> lines = LinesOf({}, [](Log& log) {
    log.Info("takeover",
             {{"merchant", "acme"}, {"attempt_number", 2}, {"hold", false}, {"age_seconds", 1.5}});
  });
  EXPECT_THAT(
      lines,
      ElementsAre(R"({"time":"2026-01-01T00:00:00.000000Z","level":"info","event":"takeover",)"
                  R"("merchant":"acme","attempt_number":2,"hold":false,"age_seconds":1.5})"));
}

TEST(Log, TimeHasMicroseconds) {
  std::ostringstream output;
  FakeClock clock;
  clock.Advance(absl::Microseconds(1234567));
  Log log({.output = &output, .clock = &clock});
  log.Info("tick");
  log.Stop();
  EXPECT_EQ(nlohmann::json::parse(output.str())["time"], "2026-01-01T00:00:01.234567Z");
}

TEST(Log, LargestNumbersStayExact) {
  const nlohmann::json line = OneLine([](Log& log) {
    log.Info("numbers", {{"low", std::numeric_limits<int64_t>::min()},
                         {"high", std::numeric_limits<uint64_t>::max()}});
  });
  EXPECT_EQ(line["low"].get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(line["high"].get<uint64_t>(), std::numeric_limits<uint64_t>::max());
}

TEST(Log, NumberThatJsonHasNotIsNull) {
  const nlohmann::json line = OneLine([](Log& log) {
    log.Info("numbers", {{"ratio", std::nan("")}});
  });
  EXPECT_TRUE(line["ratio"].is_null());
}

TEST(Log, TextValuesOfEveryTypeAreStrings) {
  const std::string owned = "b";
  const nlohmann::json line = OneLine([&](Log& log) {
    log.Info("texts", {{"literal", "a"}, {"string", owned}, {"view", absl::string_view("c")}});
  });
  EXPECT_EQ(line["literal"], "a");
  EXPECT_EQ(line["string"], "b");
  EXPECT_EQ(line["view"], "c");
}

TEST(Log, ValueCannotEndItsLineOrItsString) {
  const std::string hostile("a\n\r\t\"}\\\0z", 9);
  const nlohmann::json line = OneLine([&](Log& log) { log.Info("text", {{"value", hostile}}); });
  EXPECT_EQ(line["value"].get<std::string>(), hostile);
}

TEST(Log, InvalidUtf8IsReplacedAndTheLineKept) {
  const nlohmann::json line = OneLine([](Log& log) {
    log.Info("text", {{"value", "a\xFF\xC3z"}});
  });
  EXPECT_EQ(line["value"], "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

TEST(Log, ValueAtTheBoundIsWhole) {
  const std::string value(Log::kMaxValueBytes, 'v');
  const nlohmann::json line = OneLine([&](Log& log) { log.Info("text", {{"value", value}}); });
  EXPECT_EQ(line["value"], value);
}

TEST(Log, ValuePastTheBoundIsCutAndMarked) {
  const std::string value(Log::kMaxValueBytes + 1, 'v');
  const nlohmann::json line = OneLine([&](Log& log) { log.Info("text", {{"value", value}}); });
  EXPECT_EQ(line["value"], std::string(Log::kMaxValueBytes, 'v') + "… (1025 bytes)");
}

TEST(Log, ValueIsCutBetweenCharacters) {
  // The last byte within the bound is the third one of a four-byte character.
  const std::string before(Log::kMaxValueBytes - 3, 'v');
  const nlohmann::json line = OneLine([&](Log& log) {
    log.Info("text", {{"value", before + "\xF0\x9F\x92\xB6"}});
  });
  EXPECT_EQ(line["value"], before + "… (1025 bytes)");
}

TEST(Log, FieldsPastTheLineBoundAreLeftOutAndMarked) {
  // Every byte becomes a six-byte escape.
  const std::string wide(Log::kMaxValueBytes, '\x01');
  const nlohmann::json line = OneLine([&](Log& log) {
    log.Info("text", {{"first", wide}, {"second", wide}, {"third", 3}});
  });
  EXPECT_EQ(line["first"], wide);
  EXPECT_FALSE(line.contains("second"));
  EXPECT_EQ(line["truncated"], true);
}

TEST(Log, LinesBelowTheLevelAreLeftOut) {
  const std::vector<std::string> lines = LinesOf({.level = LogLevel::kWarn}, [](Log& log) {
    EXPECT_FALSE(log.Enabled(LogLevel::kInfo));
    EXPECT_TRUE(log.Enabled(LogLevel::kWarn));
    log.Debug("no");
    log.Info("no");
    log.Warn("yes");
    log.Error("yes");
  });
  EXPECT_THAT(lines, SizeIs(2));
}

TEST(Log, LevelSetLaterCounts) {
  const std::vector<std::string> lines = LinesOf({}, [](Log& log) {
    log.Debug("no");
    log.SetLevel(LogLevel::kDebug);
    log.Debug("yes");
  });
  EXPECT_THAT(lines, SizeIs(1));
}

TEST(Log, AuditLinesIgnoreTheLevel) {
  const std::vector<std::string> lines = LinesOf(
      {.level = LogLevel::kError}, [](Log& log) { log.Audit(LogLevel::kInfo, "takeover"); });
  EXPECT_THAT(lines, SizeIs(1));
}

TEST(Log, LevelNamesParseBack) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError}) {
    EXPECT_EQ(ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("INFO"), std::nullopt);
  EXPECT_EQ(ParseLogLevel(""), std::nullopt);
}

TEST(Log, FullQueueDropsTheOldestLinesAndCountsThem) {
  GatedBuffer buffer;
  std::ostream output(&buffer);
  Metrics metrics;
  Log log({.output = &output, .metrics = &metrics, .max_queued_lines = 2});
  log.Info("held");
  buffer.AwaitWriter();
  for (int i = 1; i <= 5; ++i) log.Info("line", {{"number", i}});
  EXPECT_EQ(log.DroppedLines(), 3u);
  EXPECT_EQ(metrics.Value(Metric::kLogDropped), 3);
  buffer.Open();
  log.Stop();
  const std::vector<std::string> lines = Lines(buffer.str());
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(nlohmann::json::parse(lines[1])["number"], 4);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["number"], 5);
  EXPECT_EQ(nlohmann::json::parse(lines[3])["event"], "log_lines_dropped");
  EXPECT_EQ(nlohmann::json::parse(lines[3])["lines"], 3);
}

TEST(Log, FullAuditQueueMakesItsCallerWaitAndDropsNothing) {
  GatedBuffer buffer;
  std::ostream output(&buffer);
  Log log({.output = &output, .max_queued_audit_lines = 1});
  log.Audit(LogLevel::kInfo, "sweep", {{"number", 0}});
  buffer.AwaitWriter();
  std::thread writer([&log] {
    for (int i = 1; i <= 20; ++i) log.Audit(LogLevel::kInfo, "sweep", {{"number", i}});
  });
  buffer.Open();
  writer.join();
  log.Stop();
  const std::vector<std::string> lines = Lines(buffer.str());
  ASSERT_THAT(lines, SizeIs(21));
  for (int i = 0; i <= 20; ++i) EXPECT_EQ(nlohmann::json::parse(lines[i])["number"], i);
  EXPECT_EQ(log.DroppedLines(), 0u);
}

TEST(Log, FullOrdinaryQueueDropsNoAuditLine) {
  GatedBuffer buffer;
  std::ostream output(&buffer);
  Log log({.output = &output, .max_queued_lines = 1});
  log.Info("held");
  buffer.AwaitWriter();
  log.Audit(LogLevel::kWarn, "takeover");
  for (int i = 0; i < 100; ++i) log.Info("noise");
  buffer.Open();
  log.Stop();
  EXPECT_THAT(buffer.str(), ::testing::HasSubstr("\"takeover\""));
}

TEST(Log, StopWhileCallersWaitForRoomLosesNoAuditLine) {
  GatedBuffer buffer;
  std::ostream output(&buffer);
  Log log({.output = &output, .max_queued_audit_lines = 1});
  std::vector<std::thread> writers;
  for (int thread = 0; thread < 4; ++thread) {
    writers.emplace_back([&log] {
      for (int i = 0; i < 50; ++i) log.Audit(LogLevel::kInfo, "sweep");
    });
  }
  buffer.AwaitWriter();
  std::thread stopper([&log] { log.Stop(); });
  buffer.Open();
  for (std::thread& writer : writers) writer.join();
  stopper.join();
  EXPECT_THAT(Lines(buffer.str()), SizeIs(200));
}

TEST(Log, LinesAfterStopAreStillWritten) {
  std::ostringstream output;
  Log log({.output = &output});
  log.Stop();
  log.Info("late");
  log.Audit(LogLevel::kInfo, "late");
  log.Stop();
  EXPECT_THAT(Lines(output.str()), SizeIs(2));
}

TEST(Log, LinesOfManyThreadsAreWholeLines) {
  const std::vector<std::string> lines = LinesOf({}, [](Log& log) {
    std::vector<std::thread> writers;
    for (int thread = 0; thread < 4; ++thread) {
      writers.emplace_back([&log, thread] {
        for (int i = 0; i < 200; ++i) log.Info("line", {{"thread", thread}, {"number", i}});
      });
    }
    for (std::thread& writer : writers) writer.join();
  });
  ASSERT_THAT(lines, SizeIs(800));
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST(Log, OutputThatFailsIsCountedAndReachesNoCaller) {
  // A buffer that refuses every byte, on a stream told to throw for it.
  class Refusing : public std::streambuf {
  } buffer;
  std::ostream output(&buffer);
  output.exceptions(std::ios::badbit | std::ios::failbit);
  Metrics metrics;
  Log log({.output = &output, .metrics = &metrics});
  log.Info("lost");
  log.Audit(LogLevel::kWarn, "lost");
  log.Stop();
  EXPECT_GE(log.DroppedLines(), 2u);
  EXPECT_EQ(metrics.Value(Metric::kLogDropped), static_cast<int64_t>(log.DroppedLines()));
}

TEST(Log, NothingIsWrittenWithoutALine) {
  EXPECT_THAT(LinesOf({}, [](Log&) {}), IsEmpty());
}

}  // namespace
}  // namespace idempotency
