#include "server/app/clock_watch.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/record/fault.h"
#include "tests/util/eventually.h"
#include "tests/util/fake_clock.h"
#include "tests/util/model_store.h"

namespace idempotency {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kInterval = absl::Milliseconds(250);

class ClockWatchTest : public testing::Test {
 protected:
  ClockWatchTest() : log_(To(&output_)) { watch_ = NewWatch(); }

  static LogOptions To(std::ostream* output) {
    LogOptions options;
    options.output = output;
    return options;
  }

  std::unique_ptr<ClockWatch> NewWatch() {
    return std::make_unique<ClockWatch>(std::make_unique<ModelStore>(&database_), Policy(), &clock_,
                                        &metrics_, &log_);
  }

  // Time passes on this machine, and by the database's clock `ahead` more.
  void Pass(absl::Duration by, absl::Duration ahead = absl::ZeroDuration()) {
    clock_.Advance(by);
    database_.JumpClock(by + ahead);
  }

  ClockState State() { return *ModelStore(&database_).ReadClock(); }
  int64_t Jumps() { return metrics_.Value(Metric::kClockJumps); }
  std::string Written() {
    log_.Stop();
    return output_.str();
  }

  ModelDatabase database_;
  FakeClock clock_;
  Metrics metrics_;
  std::ostringstream output_;
  Log log_;
  std::unique_ptr<ClockWatch> watch_;
};

TEST_F(ClockWatchTest, WritesTheReadingWhenNobodyDidForHalfOfTheInterval) {
  const absl::Time start = State().guard.reading;
  Pass(kInterval / 2 - absl::Microseconds(1));
  watch_->Step();
  EXPECT_EQ(State().guard.reading, start);
  Pass(absl::Microseconds(1));
  watch_->Step();
  EXPECT_EQ(State().guard.reading, database_.Now());
  EXPECT_EQ(Jumps(), 0);
}

TEST_F(ClockWatchTest, NotesNoJumpWhileTheClocksRunTogether) {
  for (int i = 0; i < 1000; ++i) {
    Pass(kInterval);
    watch_->Step();
  }
  EXPECT_EQ(Jumps(), 0);
  EXPECT_EQ(State().guard.last_jump_at, absl::InfinitePast());
}

TEST_F(ClockWatchTest, ToleratesTheLongestDriftAndNotesOnePast) {
  watch_->Step();
  Pass(kInterval, absl::Milliseconds(500));
  watch_->Step();
  EXPECT_EQ(Jumps(), 0);
  Pass(kInterval, absl::Microseconds(1));
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
  EXPECT_EQ(State().last_jump, ClockJump::kDrift);
  EXPECT_EQ(State().guard.last_jump_at, database_.Now());
}

TEST_F(ClockWatchTest, NotesAClockThatRunsSlow) {
  watch_->Step();
  Pass(absl::Milliseconds(800), absl::Milliseconds(-501));
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
  EXPECT_EQ(State().last_jump, ClockJump::kDrift);
  EXPECT_EQ(State().guard.token_offset_us, 0);
}

TEST_F(ClockWatchTest, NotesADriftOnce) {
  watch_->Step();
  Pass(kInterval, absl::Milliseconds(600));
  watch_->Step();
  for (int i = 0; i < 20; ++i) {
    Pass(kInterval);
    watch_->Step();
  }
  EXPECT_EQ(Jumps(), 1);
}

TEST_F(ClockWatchTest, NotesAStepBackAndAStepAhead) {
  watch_->Step();
  Pass(kInterval, -absl::Hours(2));
  watch_->Step();
  EXPECT_EQ(State().last_jump, ClockJump::kRanBack);
  EXPECT_EQ(State().guard.token_offset_us, 7'199'750'000);
  EXPECT_EQ(metrics_.Value(Metric::kTokenOffset), 7199);
  Pass(kInterval, absl::Hours(2));
  watch_->Step();
  EXPECT_EQ(State().last_jump, ClockJump::kGap);
  EXPECT_EQ(Jumps(), 2);
}

TEST_F(ClockWatchTest, NotesAPromotionAndComparesNoClocksOverIt) {
  watch_->Step();
  database_.SetIdentity({.system_identifier = 1, .timeline = 2});
  Pass(kInterval, absl::Milliseconds(600));
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
  EXPECT_EQ(State().last_jump, ClockJump::kOtherHistory);
  Pass(kInterval);
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
}

// Two replicas of which one has just started: it cannot know, and must not hide it from the other.
TEST_F(ClockWatchTest, NotesADriftThoughAnotherReplicaHasWrittenMeanwhile) {
  watch_->Step();
  Pass(kInterval, absl::Milliseconds(600));
  const std::unique_ptr<ClockWatch> newcomer = NewWatch();
  newcomer->Step();
  EXPECT_EQ(Jumps(), 0);
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
}

TEST_F(ClockWatchTest, DriftThatCouldNotBeWrittenIsNotedByTheNextLook) {
  watch_->Step();
  Pass(kInterval, absl::Milliseconds(600));
  database_.SetClockFault(absl::OkStatus(), MakeFault(Fault::kStoreUnavailable, "away"));
  watch_->Step();
  EXPECT_EQ(Jumps(), 0);
  EXPECT_EQ(metrics_.Value(Metric::kClockWatchFailed), 1);
  database_.SetClockFault(absl::OkStatus(), absl::OkStatus());
  watch_->Step();
  EXPECT_EQ(Jumps(), 1);
}

TEST_F(ClockWatchTest, ShowsThePauseAndHowLongAgoTheJumpWas) {
  watch_->Step();
  EXPECT_EQ(metrics_.Value(Metric::kExpiryPaused), 0);
  Pass(kInterval, absl::Hours(2));
  watch_->Step();
  EXPECT_EQ(metrics_.Value(Metric::kExpiryPaused), 1);
  EXPECT_EQ(metrics_.Value(Metric::kClockSinceJump), 0);
  clock_.Advance(absl::Minutes(10));
  database_.AdvanceClock(absl::Minutes(10));
  watch_->Step();
  EXPECT_EQ(metrics_.Value(Metric::kExpiryPaused), 1);
  EXPECT_EQ(metrics_.Value(Metric::kClockSinceJump), 600);
  Pass(absl::Microseconds(1));
  watch_->Step();
  EXPECT_EQ(metrics_.Value(Metric::kExpiryPaused), 0);
}

TEST_F(ClockWatchTest, LogsEachJumpWithItsReason) {
  watch_->Step();
  Pass(kInterval, -absl::Hours(2));
  watch_->Step();
  const std::string written = Written();
  EXPECT_THAT(written, HasSubstr("\"event\":\"clock_jumped\""));
  EXPECT_THAT(written, HasSubstr("ran_back"));
  EXPECT_THAT(written, HasSubstr("7199750000"));
}

TEST_F(ClockWatchTest, LogsFailuresWhenTheyBeginAndEnd) {
  database_.SetClockFault(MakeFault(Fault::kStoreUnavailable, "away"), absl::OkStatus());
  for (int i = 0; i < 3; ++i) watch_->Step();
  database_.SetClockFault(absl::OkStatus(), absl::OkStatus());
  for (int i = 0; i < 3; ++i) watch_->Step();
  EXPECT_EQ(metrics_.Value(Metric::kClockWatchFailed), 3);
  const std::string written = Written();
  EXPECT_THAT(written, HasSubstr("clock_not_watched"));
  EXPECT_THAT(written, HasSubstr("clock_watched_again"));
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 2);
}

TEST_F(ClockWatchTest, LooksByItselfOnceStarted) {
  Metrics metrics;
  ClockWatch watch(std::make_unique<ModelStore>(&database_), Policy(), SystemClock(), &metrics,
                   &log_);
  database_.JumpClock(-absl::Hours(2));
  watch.Start();
  EXPECT_TRUE(Eventually([&] { return metrics.Value(Metric::kClockJumps) == 1; }));
  database_.JumpClock(-absl::Hours(2));
  EXPECT_TRUE(Eventually([&] { return metrics.Value(Metric::kClockJumps) >= 2; }));
}

}  // namespace
}  // namespace idempotency
