// An owner that dies in the middle of its work, and a storm: three replicas as processes.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/replicas.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::HasSubstr;

class OwnerDies : public testing::Test {
 protected:
  // A process of its own that Begins the key, and is killed while it works. The lease it was given
  // runs on.
  void BeginAndDie(const std::string& key, const std::string& lease, const std::string& hold) {
    int output[2];
    ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
    ProcessCommand command;
    command.argv = {IDEM_OWNER_BINARY, replicas_.address(0), key, AttemptId("owner"), lease, hold};
    command.output_fd = output[1];
    command.death_signal = SIGKILL;
    auto owner = Process::Start(command);
    close(output[1]);
    ASSERT_TRUE(owner.ok()) << owner.status();
    char said[64] = {};
    // It writes once it owns the work, and then works for ever.
    const ssize_t length = read(output[0], said, sizeof(said) - 1);
    close(output[0]);
    ASSERT_EQ(std::string(said, static_cast<size_t>(std::max<ssize_t>(length, 0))), "started\n");
    (*owner)->Signal(SIGKILL);
    ASSERT_TRUE((*owner)->WaitFor(absl::Minutes(1)));
  }

  MigratedDatabase database_;
  ReplicaProcesses replicas_{
      3, database_.conninfo(), {"--sweep-interval=100ms", "--sweep-grace=100ms"}};
};

TEST_F(OwnerDies, ExactlyOneRetryTakesOverAndIsToldOfTheUnknownAttempt) {
  BeginAndDie("k", "3s", "");
  EXPECT_TRUE(replicas_.client(1).Begin(BeginOf("k", "early")).response.has_in_progress());
  std::atomic<int> in_progress{0};
  std::vector<v1::Started> started;
  std::mutex mu;
  std::vector<std::thread> retries;
  for (int i = 0; i < 6; ++i) {
    retries.emplace_back([&, i] {
      // As a caller does: the same attempt until somebody owns the work anew.
      const std::string attempt = absl::StrCat("retry-", i);
      EXPECT_TRUE(Eventually([&] {
        const auto called = replicas_.client(i % 3).Begin(BeginOf("k", attempt));
        EXPECT_TRUE(called.ok()) << called.status.error_message();
        if (called.response.has_started()) {
          const std::lock_guard<std::mutex> lock(mu);
          started.push_back(called.response.started());
          return true;
        }
        EXPECT_TRUE(called.response.has_in_progress());
        ++in_progress;
        return called.response.in_progress().attempt_number() == 2;
      }));
    });
  }
  for (std::thread& retry : retries) retry.join();
  EXPECT_GT(in_progress, 0);
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].attempt_number(), 2);
  EXPECT_EQ(started[0].unknown_attempts(), 1);
  EXPECT_EQ(started[0].previous_attempt().attempt_number(), 1);
  EXPECT_FALSE(started[0].previous_attempt().has_failure());
  EXPECT_THAT(replicas_.Logs(), HasSubstr("\"event\":\"takeover\""));
}

TEST_F(OwnerDies, NobodyGetsAHeldRecordUntilTheOwnersLateComplete) {
  BeginAndDie("k", "300ms", "hold");
  ASSERT_TRUE(Eventually([&] {
    return replicas_.client(0).Lookup(LookupOf("k")).response.state() == v1::RECORD_STATE_ABANDONED;
  }));
  for (int i = 0; i < replicas_.count(); ++i) {
    const auto called = replicas_.client(i).Begin(BeginOf("k", absl::StrCat("retry-", i)));
    EXPECT_EQ(called.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_EQ(called.reason, "NEEDS_RESOLUTION");
  }
  EXPECT_EQ(replicas_.client(1).Begin(BeginOf("k", "owner")).reason, "NEEDS_RESOLUTION");
  ASSERT_TRUE(replicas_.client(2).Complete(CompleteOf("k", "owner")).ok());
  EXPECT_TRUE(replicas_.client(0).Begin(BeginOf("k", "retry-9")).response.has_replay());
}

TEST_F(OwnerDies, SweeperMarksTheAttemptAndSaysSo) {
  BeginAndDie("k", "100ms", "");
  EXPECT_TRUE(Eventually([&] {
    return replicas_.Logs().find("\"event\":\"swept\",\"merchant\":\"acme\",\"key\":\"k\"") !=
           std::string::npos;
  }));
  // The number of kSwept, which operators search for.
  const auto state = QueryValue(database_.conninfo(),
                                "SELECT state FROM idempotency_record WHERE idempotency_key = 'k'");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, "5");
  // No answer depends on the mark.
  EXPECT_EQ(replicas_.client(0).Lookup(LookupOf("k")).response.state(), v1::RECORD_STATE_ABANDONED);
  EXPECT_EQ(replicas_.client(1).Begin(BeginOf("k", "b")).response.started().attempt_number(), 2);
}

TEST_F(OwnerDies, OwnerThatComesBackResumesItsOwnAttempt) {
  BeginAndDie("k", "100ms", "");
  ASSERT_TRUE(Eventually([&] {
    return replicas_.client(0).Lookup(LookupOf("k")).response.state() == v1::RECORD_STATE_ABANDONED;
  }));
  const auto back = replicas_.client(1).Begin(BeginOf("k", "owner"));
  ASSERT_TRUE(back.response.has_started()) << back.status.error_message();
  EXPECT_TRUE(back.response.started().repeated());
  EXPECT_EQ(back.response.started().attempt_number(), 1);
  EXPECT_EQ(back.response.started().unknown_attempts(), 1);
}

TEST_F(OwnerDies, ReplicaThatIsKilledTakesNoReservationWithIt) {
  const auto started = replicas_.client(0).Begin(BeginOf("k", "a"));
  ASSERT_TRUE(started.response.has_started());
  replicas_.process(0).KillHard();
  EXPECT_TRUE(replicas_.client(1).Begin(BeginOf("k", "b")).response.has_in_progress());
  const auto repeat = replicas_.client(2).Begin(BeginOf("k", "a"));
  EXPECT_TRUE(repeat.response.started().repeated());
  EXPECT_TRUE(replicas_.client(1).Complete(CompleteOf("k", "a")).ok());
}

class Storm : public testing::Test {
 protected:
  // One Begin that is under way.
  struct Pending {
    grpc::ClientContext context;
    v1::BeginRequest request;
    v1::BeginResponse response;
    grpc::Status status;
  };
  MigratedDatabase database_;
  ReplicaProcesses replicas_{3, database_.conninfo()};
};

TEST_F(Storm, OfAThousandBeginsOnOneKeyStartsOne) {
  constexpr int kCalls = 1000;
  std::vector<std::unique_ptr<Pending>> calls;
  std::atomic<int> answered{0};
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<Pending>());
    Pending& call = *calls.back();
    call.request = BeginOf("k", absl::StrCat("storm-", i));
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    replicas_.client(i % 3).stub()->async()->Begin(&call.context, &call.request, &call.response,
                                                   [&call, &answered](const grpc::Status& status) {
                                                     call.status = status;
                                                     ++answered;
                                                   });
  }
  ASSERT_TRUE(Eventually([&] { return answered == kCalls; }, absl::Minutes(2)));
  int started = 0;
  std::set<std::string> records;
  for (const auto& call : calls) {
    ASSERT_TRUE(call->status.ok()) << call->status.error_message();
    started += call->response.has_started() ? 1 : 0;
    EXPECT_TRUE(call->response.has_started() || call->response.has_in_progress());
    records.insert(call->response.record_id());
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(records.size(), 1u);
}

}  // namespace
}  // namespace idempotency
