#include "server/rpc/call_log.h"

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/util/fake_clock.h"

namespace idempotency {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CallLogTest : public testing::Test {
 protected:
  CallLogTest() : log_(Options(&output_, &clock_)), calls_(&log_, &clock_, /*max_records=*/2) {}

  static LogOptions Options(std::ostream* output, Clock* clock) {
    LogOptions options;
    options.output = output;
    options.clock = clock;
    return options;
  }

  void Replay(const std::string& key) {
    Record record;
    record.key = {"acme", key};
    calls_.OnReplay(absl::StrCat("id-of-", key), record, trace_);
  }

  std::vector<std::string> Lines() {
    log_.Stop();
    return absl::StrSplit(output_.str(), '\n', absl::SkipEmpty());
  }

  FakeClock clock_;
  std::ostringstream output_;
  Log log_;
  CallLog calls_;
  TraceId trace_;
};

TEST_F(CallLogTest, WritesTheFirstReplayOfARecord) {
  Replay("a");
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("\"event\":\"replay\""),
                                         HasSubstr("\"merchant\":\"acme\""),
                                         HasSubstr("\"key\":\"a\""), HasSubstr("\"count\":1"))));
}

TEST_F(CallLogTest, WritesOneLineASecondAndRecordWithACount) {
  Replay("a");
  for (int i = 0; i < 10; ++i) Replay("a");
  clock_.Advance(absl::Seconds(1));
  Replay("a");
  Replay("a");
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"count\":1}"), HasSubstr("\"count\":11}")));
}

TEST_F(CallLogTest, CountsRecordsApart) {
  Replay("a");
  Replay("b");
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"key\":\"a\""), HasSubstr("\"key\":\"b\"")));
}

TEST_F(CallLogTest, WritesTheCountOfARecordThatItForgets) {
  Replay("a");
  Replay("a");
  Replay("b");
  Replay("c");  // the third: "a" is forgotten
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"key\":\"a\""), HasSubstr("\"key\":\"b\""),
                                   HasSubstr("\"key\":\"c\""),
                                   AllOf(HasSubstr("\"key\":\"a\""), HasSubstr("\"count\":1}"))));
}

TEST_F(CallLogTest, FlushWritesWhatHadNoLineYet) {
  Replay("a");
  Replay("a");
  Replay("a");
  calls_.FlushReplays();
  calls_.FlushReplays();
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"count\":1}"), HasSubstr("\"count\":2}")));
}

TEST_F(CallLogTest, CounterThatIsHeldCountsOnAfterItsRecordWasForgotten) {
  Record record;
  record.key = {"acme", "a"};
  std::shared_ptr<ReplayCounter> counter = calls_.CounterOf("id-of-a", record);
  counter->Count(trace_);
  counter->Count(trace_);
  Replay("b");
  Replay("c");  // the third: "a" is forgotten
  counter->Count(trace_);
  counter.reset();
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("\"key\":\"a\""), HasSubstr("\"count\":1}")),
                                   HasSubstr("\"key\":\"b\""), HasSubstr("\"key\":\"c\""),
                                   AllOf(HasSubstr("\"key\":\"a\""), HasSubstr("\"count\":2}"))));
}

TEST_F(CallLogTest, CounterAndCallsOfOneRecordShareItsLines) {
  Record record;
  record.key = {"acme", "a"};
  const std::shared_ptr<ReplayCounter> counter = calls_.CounterOf("id-of-a", record);
  Replay("a");
  counter->Count(trace_);
  Replay("a");
  calls_.FlushReplays();
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("\"count\":1}"), HasSubstr("\"count\":2}")));
}

TEST_F(CallLogTest, ManyThreadsReplaysAreAllCounted) {
  Record record;
  record.key = {"acme", "a"};
  const std::shared_ptr<ReplayCounter> counter = calls_.CounterOf("id-of-a", record);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) counter->Count(trace_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  calls_.FlushReplays();
  int64_t counted = 0;
  for (const std::string& line : Lines()) {
    const size_t at = line.find("\"count\":");
    ASSERT_NE(at, std::string::npos);
    counted += std::stoll(line.substr(at + 8));
  }
  EXPECT_EQ(counted, 4000);
}

TEST_F(CallLogTest, WritesCallsAtDebugOnly) {
  calls_.OnAnswered("Begin", {"acme", "a"}, "OK", "", absl::Milliseconds(1), trace_);
  log_.SetLevel(LogLevel::kDebug);
  calls_.OnAnswered("Lookup", {"acme", "a"}, "OK", "", absl::Milliseconds(1), trace_);
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("\"method\":\"Lookup\""),
                                         HasSubstr("\"took_us\":1000"))));
}

TEST_F(CallLogTest, WritesAKeyConflictWhateverTheLevel) {
  log_.SetLevel(LogLevel::kError);
  Record record;
  record.key = {"acme", "a"};
  record.operation = "POST /orders";
  calls_.OnKeyReused("id-of-a", "POST /refunds", record, trace_);
  EXPECT_THAT(Lines(), ElementsAre(AllOf(HasSubstr("\"event\":\"key_reused\""),
                                         HasSubstr("\"stored_operation\":\"POST /orders\""),
                                         HasSubstr("\"given_operation\":\"POST /refunds\""))));
}

}  // namespace
}  // namespace idempotency
