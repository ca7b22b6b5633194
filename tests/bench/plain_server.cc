// plain_server: what a good engineer writes first, and writes well. The yardstick of
// docs/benchmarks.md.
//
// One INSERT … ON CONFLICT DO NOTHING for each Begin and one UPDATE for each Complete, in the
// schema of sql/obvious.sql: prepared once, binary parameters, one commit a call, a pool of 16
// connections. The callback API's threads must not wait for a database, so a handler queues its
// call, and each connection has a thread that takes one call after the other. It does less than the
// service: no validation, no fingerprint compared, no lease, no replay.
//
//   plain_server HOST:PORT CONNINFO        runs until it is killed
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "libpq-fe.h"
#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/rpc/server.h"

namespace idempotency::bench {
namespace {

constexpr int kConnections = 16;

constexpr char kBegin[] =
    "INSERT INTO obvious_idempotency_key (merchant_id, idempotency_key, request_hash, endpoint, "
    "status, expires_at) "
    "VALUES ($1, $2, $3, $4, 'in_progress', now() + interval '24 hours') "
    "ON CONFLICT (merchant_id, idempotency_key) DO NOTHING";
constexpr char kComplete[] =
    "UPDATE obvious_idempotency_key SET status = 'completed', response_id = $3, updated_at = now() "
    "WHERE merchant_id = $1 AND idempotency_key = $2 AND status = 'in_progress'";

// One connection, used by one thread.
class Connection {
 public:
  explicit Connection(const char* conninfo) : connection_(PQconnectdb(conninfo)) {
    Prepare("begin", kBegin);
    Prepare("complete", kComplete);
  }
  ~Connection() { PQfinish(connection_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs a prepared statement. The number of rows written, or a reason.
  struct Written {
    int rows = 0;
    std::string error;
  };
  Written Run(const char* statement, const std::vector<const std::string*>& values) {
    const char* pointers[4];
    int lengths[4];
    constexpr int kBinary[4] = {1, 1, 1, 1};
    for (size_t i = 0; i < values.size(); ++i) {
      pointers[i] = values[i] == nullptr ? nullptr : values[i]->data();
      lengths[i] = values[i] == nullptr ? 0 : static_cast<int>(values[i]->size());
    }
    PGresult* const result = PQexecPrepared(connection_, statement, static_cast<int>(values.size()),
                                            pointers, lengths, kBinary, 1);
    Written written;
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
      written.rows = std::atoi(PQcmdTuples(result));
    } else {
      written.error = PQerrorMessage(connection_);
    }
    PQclear(result);
    return written;
  }

 private:
  void Prepare(const char* name, const char* sql) {
    PGresult* const result = PQprepare(connection_, name, sql, 0, nullptr);
    IDEM_CHECK(PQresultStatus(result) == PGRES_COMMAND_OK) << PQerrorMessage(connection_);
    PQclear(result);
  }

  PGconn* const connection_;
};

// The 16 connections with their threads. Thread-safe. Lives until the process is killed.
class Pool {
 public:
  using Task = std::function<void(Connection*)>;

  explicit Pool(const char* conninfo) {
    for (int i = 0; i < kConnections; ++i) {
      threads_.emplace_back(
          [this, connection = std::make_unique<Connection>(conninfo)] { Work(connection.get()); });
    }
  }

  void Add(Task task) {
    {
      MutexLock lock(&mu_);
      tasks_.push_back(std::move(task));
    }
    added_.NotifyOne();
  }

 private:
  [[noreturn]] void Work(Connection* connection) {
    for (;;) {
      Task task;
      {
        MutexLock lock(&mu_);
        while (tasks_.empty()) added_.Wait(&mu_);
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task(connection);
    }
  }

  std::vector<std::thread> threads_;
  Mutex mu_;
  CondVar added_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
};

using CallbackService = v1::IdempotencyService::WithCallbackMethod_Begin<
    v1::IdempotencyService::WithCallbackMethod_Complete<v1::IdempotencyService::Service>>;

class PlainService final : public CallbackService {
 public:
  explicit PlainService(Pool* pool) : pool_(pool) {}

  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const v1::BeginRequest* request,
                                  v1::BeginResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    pool_->Add([=](Connection* connection) {
      const Connection::Written written =
          connection->Run("begin", {&request->merchant_id(), &request->idempotency_key(),
                                    &request->fingerprint(), &request->operation()});
      if (written.rows == 1) {
        response->mutable_started()->set_attempt_id(request->attempt_id());
        response->mutable_started()->set_attempt_number(1);
      } else {
        response->mutable_in_progress()->mutable_retry_after()->set_seconds(1);
      }
      Finish(reactor, written.error);
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* /*response*/) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    pool_->Add([=](Connection* connection) {
      const std::string& response_id = request->outcome().response_id();
      const Connection::Written written =
          connection->Run("complete", {&request->merchant_id(), &request->idempotency_key(),
                                       response_id.empty() ? nullptr : &response_id});
      Finish(reactor,
             written.error.empty() && written.rows == 0 ? "no such attempt" : written.error);
    });
    return reactor;
  }

 private:
  static void Finish(grpc::ServerUnaryReactor* reactor, const std::string& error) {
    reactor->Finish(error.empty() ? grpc::Status::OK
                                  : grpc::Status(grpc::StatusCode::UNAVAILABLE, error));
  }

  Pool* const pool_;
};

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: plain_server HOST:PORT CONNINFO" << std::endl;
    return 2;
  }
  idempotency::bench::Pool pool(argv[2]);
  idempotency::bench::PlainService service(&pool);
  const auto server = idempotency::Server::Start(argv[1], &service);
  if (!server.ok()) {
    std::cerr << "plain_server: " << server.status().message() << std::endl;
    return 1;
  }
  absl::SleepFor(absl::InfiniteDuration());
}
