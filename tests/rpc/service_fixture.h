// The service over real gRPC on loopback, above an engine that the test plays.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/engine/merchant_limits.h"
#include "server/record/limit.h"
#include "server/rpc/answer_room.h"
#include "server/rpc/call_log.h"
#include "server/rpc/idempotency_service.h"
#include "server/rpc/server.h"
#include "server/rpc/worker_pool.h"
#include "tests/rpc/fake_engine.h"

namespace idempotency {

// An Authenticator that says what the test tells it to; everybody may do everything at first.
class FakeAuthenticator : public Authenticator {
 public:
  std::variant<Caller, CredentialFault> Authenticate(const grpc::CallbackServerContext&) override {
    const std::lock_guard<std::mutex> lock(mu_);
    return answer_;
  }
  void Say(std::variant<Caller, CredentialFault> answer) {
    const std::lock_guard<std::mutex> lock(mu_);
    answer_ = std::move(answer);
  }

 private:
  std::mutex mu_;
  std::variant<Caller, CredentialFault> answer_ = Caller{.name = "test", .any_merchant = true};
};

class ServiceFixture : public testing::Test {
 protected:
  // What its callers may leave untaken: of one merchant three answers with bodies of 1 MiB.
  static constexpr size_t kAnswerBytes = 8 * kMiB;

  // `clock` is for the calls' times, and must outlive this; gRPC counts deadlines by its own.
  explicit ServiceFixture(const MerchantLimitOptions& merchant_limits = {},
                          Clock* clock = SystemClock());
  ~ServiceFixture() override;

  // Sends `bytes` as the message of a call, whatever they are.
  grpc::Status CallRaw(const std::string& method, absl::string_view bytes);
  // Begin, Complete, Fail, Renew or Lookup of a valid request on a thread of its own, while
  // `answer` runs on this one.
  grpc::Status BeginWhile(const v1::BeginRequest& request, v1::BeginResponse* response,
                          const std::function<void()>& answer,
                          grpc::ClientContext* context = nullptr);
  // The service does its work: shown by one Begin that the engine answers.
  void ExpectUnharmed();
  // Every log line so far. Ends the log.
  std::string StopLog();

  std::ostringstream log_output_;
  Log log_;
  CallLog call_log_;
  Metrics metrics_;
  FakeEngine engine_;
  FakeAuthenticator authenticator_;
  MerchantLimits merchants_;
  AnswerRoom answers_;
  // One worker, one place in its queue: a test can fill it.
  WorkerPool workers_;
  IdempotencyService service_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

// Results for a record of merchant acme and key order-1.
BeginResult StartedResult(const BeginItem& item);
BeginResult ReplayResult(const BeginItem& item, Answer answer);

}  // namespace idempotency
