// The whole engine, call by call.
#include "server/engine/engine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

TEST_F(EngineTest, BeginStartsThenReplaysWhatCompleteRecorded) {
  const Told<BeginResult> first = Begin(BeginOf("order-1", 1));
  Step();
  EXPECT_EQ((*first).verdict, BeginVerdict::kStarted);

  const Told<OwnerResult> complete = Owner(CompleteOf("order-1", 1));
  Step();
  EXPECT_EQ((*complete).verdict, OwnerVerdict::kRecorded);

  const Told<BeginResult> second = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ((*second).verdict, BeginVerdict::kReplay);
  EXPECT_EQ(std::get<Outcome>(*(*second).record->answer).status_code, 201);
}

// Known fault 2.
TEST_F(EngineTest, LoserOfARaceIsToldInProgress) {
  Start("order-1");
  const Told<BeginResult> loser = Begin(BeginOf("order-1", 2));
  Step();
  EXPECT_EQ((*loser).verdict, BeginVerdict::kInProgress);
}

TEST_F(EngineTest, LookupTellsTheRecord) {
  Start("order-1");
  const Told<LookupResult> lookup = Lookup("order-1");
  Step();
  EXPECT_EQ((*lookup).record->attempt_number, 1);
}

TEST_F(EngineTest, LookupOfNothingTellsNothing) {
  const Told<LookupResult> lookup = Lookup("order-1");
  Step();
  EXPECT_EQ((*lookup).record, nullptr);
}

TEST_F(EngineTest, ThreadsAnswerWithoutSteps) {
  const std::unique_ptr<Engine> started =
      MakeEngine(options_, MakeModelStoreFactory(&database_), &clock_, &metrics_, &events_);
  const Told<BeginResult> told;
  started->Begin(BeginOf("order-1", 1), Terms(), told.Done());
  told.Await();
  EXPECT_EQ((*told).verdict, BeginVerdict::kStarted);
}

}  // namespace
}  // namespace idempotency
