// The service at its limits and past them: who is refused, how, and that nobody else is.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "libpq-fe.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "tests/e2e/replicas.h"
#include "tests/rpc/error_details.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

constexpr char kPushback[] = "grpc-retry-pushback-ms";

template <typename Request>
Request For(const std::string& merchant, Request request) {
  request.set_merchant_id(merchant);
  return request;
}

// Whether a refusal says when to come back, in both places.
bool HasHint(const grpc::ClientContext& context, const grpc::Status& status) {
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  return retry.has_value() && context.GetServerTrailingMetadata().count(kPushback) == 1;
}

// What the Begins of a flood came to.
struct FloodCounts {
  int started = 0;
  int refused = 0;
};

// Begins of merchant "flood" from several threads, one after the other on each, until told to stop.
class Flood {
 public:
  static constexpr int kThreads = 4;
  // Each thread sends at least so many, so that there is a flood however slow the machine is.
  static constexpr int kFewest = 40;

  explicit Flood(Client* client) : client_(client) {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this, i] { Send(i); });
  }
  FloodCounts Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    return counts_;
  }

 private:
  void Send(int number) {
    for (int i = 0; i < kFewest || !stop_; ++i) {
      const std::string key = absl::StrCat("flood-", number, "-", i);
      grpc::ClientContext context;
      v1::BeginResponse response;
      const grpc::Status status =
          client_->stub()->Begin(&context, For("flood", BeginOf(key, "a")), &response);
      if (status.ok()) {
        // The work it was let in for may always be finished.
        EXPECT_TRUE(client_->Complete(For("flood", CompleteOf(key, "a"))).ok());
      } else {
        EXPECT_EQ(ReasonOf(status), "MERCHANT_RATE_LIMITED") << status.error_message();
        EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
        EXPECT_TRUE(HasHint(context, status));
      }
      MutexLock lock(&mu_);
      ++(status.ok() ? counts_.started : counts_.refused);
    }
  }

  Client* const client_;
  std::atomic<bool> stop_{false};
  Mutex mu_;
  FloodCounts counts_;
  std::vector<std::thread> threads_;
};

// Ten payments of the merchant from end to end, within a rate of 20.
void ExpectServed(Client& client, const std::string& merchant) {
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("order-", i);
    const auto begun = client.Begin(For(merchant, BeginOf(key, "a")));
    EXPECT_TRUE(begun.ok()) << begun.reason;
    EXPECT_TRUE(begun.response.has_started());
    const auto completed = client.Complete(For(merchant, CompleteOf(key, "a")));
    EXPECT_TRUE(completed.ok()) << completed.reason;
    const auto found = client.Lookup(For(merchant, LookupOf(key)));
    EXPECT_TRUE(found.ok()) << found.reason;
  }
}

TEST(MerchantLimits, OneMerchantsFloodIsRefusedAndTheOthersCallsAreAllAnswered) {
  const MigratedDatabase database;
  ReplicaProcesses replicas(1, database.conninfo(),
                            {"--merchant-max-rate=20", "--merchant-burst=20"});
  const absl::Duration begun = SystemClock()->BootTime();
  Flood flood(&replicas.client(0));
  Client other(replicas.address(0));
  ExpectServed(other, "other");
  const FloodCounts counts = flood.Stop();
  const double seconds = absl::ToDoubleSeconds(SystemClock()->BootTime() - begun);
  EXPECT_GT(counts.refused, 0);
  EXPECT_GT(counts.started, 0);
  EXPECT_LE(counts.started, 20 + 20 * seconds);
}

TEST(MerchantLimits, RefusalsAreCounted) {
  const MigratedDatabase database;
  Settings settings = TestSettings(database.conninfo());
  settings.merchants = {.max_rate = 20, .burst = 20, .max_calls_in_flight = 0};
  LocalReplica replica(settings);
  Flood flood(&replica.client());
  ExpectServed(replica.client(), "other");
  const FloodCounts counts = flood.Stop();
  EXPECT_EQ(replica.metrics().Value(Metric::kMerchantRateLimited), counts.refused);
  EXPECT_EQ(replica.metrics().Value(Metric::kMerchantBuckets), 2);
  EXPECT_EQ(replica.metrics().Value(Metric::kOverloaded), 0);
}

// Nobody's Begin gets through while it lives.
class TableLock {
 public:
  explicit TableLock(const std::string& conninfo)
      : connection_(PQconnectdb(conninfo.c_str()), PQfinish) {
    PQclear(PQexec(connection_.get(), "BEGIN"));
    PGresult* const locked =
        PQexec(connection_.get(), "LOCK TABLE idempotency_record IN SHARE ROW EXCLUSIVE MODE");
    EXPECT_EQ(PQresultStatus(locked), PGRES_COMMAND_OK) << PQerrorMessage(connection_.get());
    PQclear(locked);
  }

 private:
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

TEST(Overload, PastItsBoundCallsAreRefusedWithAHintAndTheOthersAnsweredLater) {
  const MigratedDatabase database;
  Settings settings = TestSettings(database.conninfo());
  // 48 for Begins, 16 more for Completes.
  settings.engine.calls_in_flight_max = 64;
  settings.engine.waits_max = 32;
  LocalReplica replica(settings);
  ASSERT_TRUE(replica.client().Begin(BeginOf("earlier", "a")).ok());
  auto lock = std::make_unique<TableLock>(database.conninfo());

  std::atomic<int> refused{0};
  std::atomic<int> served{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 60; ++i) {
    callers.emplace_back([&, i] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      v1::BeginResponse response;
      const grpc::Status status = replica.client().stub()->Begin(
          &context, BeginOf(absl::StrCat("order-", i), "a"), &response);
      if (status.ok()) {
        ++served;
        return;
      }
      EXPECT_EQ(ReasonOf(status), "OVERLOADED") << status.error_message();
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
      EXPECT_TRUE(HasHint(context, status));
      ++refused;
    });
  }
  // At once: the others are still held by the lock.
  EXPECT_TRUE(Eventually([&] { return refused == 12; })) << refused;
  EXPECT_EQ(served, 0);
  EXPECT_EQ(replica.metrics().Value(Metric::kCallsRefused), 12);
  std::thread finisher([&] {
    const auto completed = replica.client().Complete(CompleteOf("earlier", "a"));
    EXPECT_TRUE(completed.ok()) << completed.reason;
  });
  EXPECT_TRUE(Eventually([&] { return replica.metrics().Value(Metric::kCallsInFlight) == 49; }));
  lock.reset();
  for (std::thread& caller : callers) caller.join();
  finisher.join();
  EXPECT_EQ(served, 48);
  EXPECT_EQ(refused, 12);
  EXPECT_TRUE(replica.client().Begin(BeginOf("later", "a")).ok());
  EXPECT_EQ(replica.metrics().Value(Metric::kCallsInFlight), 0);
}

// Replays of the largest bodies in one batch are read in parts, and all are answered.
TEST(AnswerBytes, ReplaysThatDoNotFitIntoOneBatchAreAllAnswered) {
  const MigratedDatabase database;
  Settings settings = TestSettings(database.conninfo());
  settings.engine.lanes = 1;
  settings.engine.batch_max_answer_bytes = 300'000;
  settings.bounds.max_outcome_body_bytes = 200'000;
  LocalReplica replica(settings);
  constexpr int kKeys = 12;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = absl::StrCat("order-", i);
    ASSERT_TRUE(replica.client().Begin(BeginOf(key, "a")).ok());
    const std::string body(200'000, static_cast<char>('a' + i));
    ASSERT_TRUE(replica.client().Complete(CompleteOf(key, "a", body)).ok());
  }
  // So that they come together.
  auto lock = std::make_unique<TableLock>(database.conninfo());
  std::thread blocked([&] { replica.client().Begin(BeginOf("blocked", "a")); });
  EXPECT_TRUE(Eventually([&] { return replica.metrics().Value(Metric::kCallsInFlight) == 1; }));
  std::vector<std::thread> callers;
  for (int i = 0; i < kKeys; ++i) {
    callers.emplace_back([&, i] {
      const auto replay = replica.client().Begin(BeginOf(absl::StrCat("order-", i), "b"));
      EXPECT_TRUE(replay.ok()) << replay.reason;
      EXPECT_EQ(replay.response.replay().outcome().body(),
                std::string(200'000, static_cast<char>('a' + i)));
    });
  }
  EXPECT_TRUE(
      Eventually([&] { return replica.metrics().Value(Metric::kCallsInFlight) == kKeys + 1; }));
  lock.reset();
  for (std::thread& caller : callers) caller.join();
  blocked.join();
}

}  // namespace
}  // namespace idempotency
