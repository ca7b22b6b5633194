// What the engine counts and reports: every verdict, takeovers, resumes, refused answers.
#include <atomic>
#include <memory>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/refused.h"
#include "tests/engine/engine_fixture.h"

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReportTest : public EngineTest {
 protected:
  void PassLease() { Advance(absl::Seconds(63)); }
  // What the store answers when it wrote the item in an earlier run and finds it a while later.
  BeginResult RunAgain(const BeginItem& item) {
    Advance(absl::Seconds(1));
    ModelStore store(&database_);
    BeginResult result = *store.BeginBatch({&item})[0];
    EXPECT_TRUE(result.repeated);
    EXPECT_FALSE(result.wrote_attempt);
    result.wrote_attempt = true;
    return result;
  }

  void Report(Answers& answers, const BeginItem& item) {
    BeginCall call(item, Terms(), [](absl::StatusOr<BeginResult>) {});
    answers.Report(call, RunAgain(item));
    call.answered = true;
  }
  CallTerms TermsOfTrace(char digit) {
    CallTerms terms = Terms();
    terms.trace.hex.fill(digit);
    return terms;
  }

  Admission admission_{{.calls = 1, .waits = 0, .waits_of_merchant = 0}, &metrics_};
};

TEST_F(ReportTest, WhatIsReportedNamesTheTraceOfItsCall) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 2), TermsOfTrace('2'));
  Step();
  Owner(CompleteOf("a", 1), TermsOfTrace('1'));
  Step();
  PassLease();
  Begin(BeginOf("a", 2), TermsOfTrace('3'));
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a of " + std::string(32, '2'),
                                          "refused a of " + std::string(32, '1'),
                                          "resume a of " + std::string(32, '3')));
}

TEST_F(ReportTest, EveryBeginVerdictIsCounted) {
  Start("a");
  Begin(BeginOf("a", 1));
  Begin(BeginOf("a", 2));
  Begin(BeginOf("a", 3, /*body=*/2));
  Step();
  EXPECT_EQ(Count(Metric::kBeginStarted), 1);
  EXPECT_EQ(Count(Metric::kBeginRepeated), 1);
  EXPECT_EQ(Count(Metric::kBeginInProgress), 1);
  EXPECT_EQ(Count(Metric::kBeginKeyReused), 1);
}

TEST_F(ReportTest, ReplayIsCounted) {
  Start("a");
  Owner(CompleteOf("a", 1));
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_EQ(Count(Metric::kCompleteRecorded), 1);
  EXPECT_EQ(Count(Metric::kBeginReplay), 1);
}

TEST_F(ReportTest, LostLeaseIsCounted) {
  Start("a");
  Owner(FailOf("a", 1, Disposition::kNotApplied));
  Begin(BeginOf("a", 1));
  Step();
  EXPECT_EQ(Count(Metric::kFailRecorded), 1);
  EXPECT_EQ(Count(Metric::kBeginLeaseLost), 1);
}

TEST_F(ReportTest, NeedForResolutionIsCounted) {
  BeginItem item = BeginOf("a", 1);
  item.hold = true;
  Begin(std::move(item));
  Step();
  PassLease();
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_EQ(Count(Metric::kBeginNeedsResolution), 1);
}

TEST_F(ReportTest, RenewVerdictsAreCounted) {
  Start("a");
  Owner(RenewOf("a", 1));
  Step();
  Owner(CompleteOf("a", 1));
  Step();
  Owner(RenewOf("a", 1));
  Owner(RenewOf("none", 1));
  Step();
  EXPECT_EQ(Count(Metric::kRenewed), 1);
  EXPECT_EQ(Count(Metric::kAlreadyFinished), 1);
  EXPECT_EQ(Count(Metric::kOwnerNotFound), 1);
}

TEST_F(ReportTest, LookupIsCounted) {
  Lookup("a");
  Step();
  EXPECT_EQ(Count(Metric::kLookup), 1);
}

TEST_F(ReportTest, TakeoverIsReported) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a"));
  EXPECT_EQ(Count(Metric::kTakeover), 1);
}

TEST_F(ReportTest, TakeoverAfterFailUnknownIsReported) {
  Start("a");
  Owner(FailOf("a", 1, Disposition::kUnknown));
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a"));
}

TEST_F(ReportTest, StartAfterNotAppliedIsNoTakeover) {
  Start("a");
  Owner(FailOf("a", 1, Disposition::kNotApplied));
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_THAT(events_.Seen(), IsEmpty());
  EXPECT_EQ(Count(Metric::kTakeover), 0);
}

TEST_F(ReportTest, ResumeIsReported) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 1));
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("resume a"));
  EXPECT_EQ(Count(Metric::kResume), 1);
}

TEST_F(ReportTest, RepeatAtTheInstantOfTheStartIsNoResume) {
  Start("a");
  Begin(BeginOf("a", 1));
  Step();
  EXPECT_EQ(Count(Metric::kResume), 0);
}

TEST_F(ReportTest, RepeatAfterAResumeIsNoResume) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 1));
  Step();
  Advance(absl::Milliseconds(10));
  Begin(BeginOf("a", 1));
  Step();
  EXPECT_EQ(Count(Metric::kResume), 1);
}

TEST_F(ReportTest, RepeatInTheBatchOfATakeoverIsNoResume) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 2));
  Begin(BeginOf("a", 2));
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a"));
}

TEST_F(ReportTest, ConflictingCompleteIsReportedAndKeptInTheNextBatch) {
  Start("a");
  Owner(CompleteOf("a", 1));
  Step();
  const auto told = Owner(CompleteOf("a", 1, /*status_code=*/500));
  Step();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_THAT(events_.Seen(), ElementsAre("refused a"));
  EXPECT_EQ(Count(Metric::kOutcomeConflict), 1);
  EXPECT_EQ(database_.CountBatches(BatchKind::kKeepRefused), 0u);
  Step();
  EXPECT_EQ(database_.Find(Key("a"))->refused_outcome->status_code, 500);
  EXPECT_EQ(Count(Metric::kRefusedKept), 1);
}

TEST_F(ReportTest, LateCompleteAfterATakeoverIsReportedAndKept) {
  Start("a");
  PassLease();
  Start("a", 2);
  const auto told = Owner(CompleteOf("a", 1));
  Step();
  Step();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kLeaseLost);
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a", "refused a"));
  EXPECT_EQ(Count(Metric::kFencingRefused), 1);
  EXPECT_EQ(database_.Find(Key("a"))->refused_outcome->attempt_number, 1);
}

TEST_F(ReportTest, CompleteWithoutARecordIsReportedAndNotKept) {
  Owner(CompleteOf("a", 1));
  Step();
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("refused a"));
  EXPECT_EQ(Count(Metric::kOwnerNotFound), 1);
  EXPECT_EQ(database_.CountBatches(BatchKind::kKeepRefused), 0u);
}

TEST_F(ReportTest, CompleteOfAStrangerIsReportedAndNotKept) {
  Start("a");
  Owner(CompleteOf("a", 99));
  Step();
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("refused a"));
  EXPECT_FALSE(database_.Find(Key("a"))->refused_outcome.has_value());
  EXPECT_EQ(database_.CountBatches(BatchKind::kKeepRefused), 0u) << "not even tried";
}

// The answer of the takeover's commit was lost; the store ran the batch again, which found it.
TEST_F(ReportTest, TakeoverWhoseCommitAnswerWasLostIsReported) {
  Start("a");
  PassLease();
  Start("a", 2);
  Answers answers(&admission_, &clock_, &metrics_, &events_);
  Report(answers, BeginOf("a", 2));
  EXPECT_THAT(events_.Seen(), ElementsAre("takeover a", "takeover a"));
  EXPECT_EQ(Count(Metric::kTakeover), 2);
}

TEST_F(ReportTest, ResumeWhoseCommitAnswerWasLostIsReported) {
  Start("a");
  PassLease();
  Begin(BeginOf("a", 1));
  Step();
  Answers answers(&admission_, &clock_, &metrics_, &events_);
  Report(answers, BeginOf("a", 1));
  EXPECT_THAT(events_.Seen(), ElementsAre("resume a", "resume a"));
  EXPECT_EQ(Count(Metric::kResume), 2);
}

TEST_F(ReportTest, StartWhoseCommitAnswerWasLostIsNoTakeover) {
  Start("a");
  Answers answers(&admission_, &clock_, &metrics_, &events_);
  Report(answers, BeginOf("a", 1));
  EXPECT_THAT(events_.Seen(), IsEmpty());
}

// Somebody was told: the caller.
TEST_F(ReportTest, FaultThatTheCallerIsToldIsNotReported) {
  Start("a");
  database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kStoreUnavailable, "away"));
  Owner(CompleteOf("a", 1));
  Step();
  EXPECT_THAT(events_.Seen(), IsEmpty());
}

TEST_F(ReportTest, FaultOfACompleteWhoseCallerLeftIsReported) {
  Start("a");
  CallTerms terms = Terms();
  terms.caller_left = std::make_shared<std::atomic<bool>>(true);
  database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kStoreUnavailable, "away"));
  Owner(CompleteOf("a", 1), terms);
  Step();
  EXPECT_THAT(events_.Seen(), ElementsAre("given up a"));
  EXPECT_EQ(Count(Metric::kOutcomeGivenUp), 1);
}

TEST_F(ReportTest, FaultOfARenewWhoseCallerLeftIsNotReported) {
  Start("a");
  CallTerms terms = Terms();
  database_.FailNext(BatchKind::kOwner, MakeFault(Fault::kStoreUnavailable, "away"));
  auto left = std::make_shared<std::atomic<bool>>(false);
  terms.caller_left = left;
  Owner(RenewOf("a", 1), terms);
  database_.CloseGate();
  std::thread lane([&] { Step(); });
  ASSERT_TRUE(database_.AwaitAtGate(1));
  left->store(true);
  database_.OpenGate();
  lane.join();
  EXPECT_THAT(events_.Seen(), IsEmpty());
}

TEST_F(ReportTest, RefusedRenewIsNoEvidence) {
  Start("a");
  Owner(RenewOf("a", 99));
  Step();
  Step();
  EXPECT_THAT(events_.Seen(), IsEmpty());
  EXPECT_EQ(database_.CountBatches(BatchKind::kKeepRefused), 0u);
}

TEST_F(ReportTest, FailureToKeepARefusedAnswerIsCountedOnly) {
  Start("a");
  Owner(CompleteOf("a", 1));
  Step();
  database_.FailNext(BatchKind::kKeepRefused, MakeFault(Fault::kStoreUnavailable, "away"));
  const auto told = Owner(CompleteOf("a", 1, /*status_code=*/500));
  Step();
  Step();
  EXPECT_EQ((*told).verdict, OwnerVerdict::kOutcomeConflict);
  EXPECT_EQ(Count(Metric::kRefusedKeepFailed), 1);
}

TEST(RefusedAnswers, HoldsAsManyKeysAsItsBound) {
  Metrics metrics;
  RefusedAnswers refused(&metrics);
  for (size_t i = 0; i < RefusedAnswers::kMaxItems; ++i) {
    refused.Add(CompleteOf("order-" + std::to_string(i), 1));
  }
  EXPECT_EQ(metrics.Value(Metric::kRefusedKeepFailed), 0);
  refused.Add(CompleteOf("one-more", 1));
  EXPECT_EQ(metrics.Value(Metric::kRefusedKeepFailed), 1);
}

TEST(RefusedAnswers, KeepsTheLastOfAKey) {
  Metrics metrics;
  ModelDatabase database;
  ModelStore store(&database);
  const BeginItem begin = BeginOf("a", 1);
  store.BeginBatch({&begin});
  RefusedAnswers refused(&metrics);
  refused.Add(CompleteOf("a", 1, /*status_code=*/500));
  refused.Add(CompleteOf("a", 1, /*status_code=*/501));
  refused.Keep(&store);
  refused.Keep(&store);
  EXPECT_EQ(database.Find(Key("a"))->refused_outcome->status_code, 501);
  EXPECT_TRUE(refused.empty());
}

}  // namespace
}  // namespace idempotency
