// A gRPC proxy between a client and a service: keeps every request's bytes, and makes calls fail
// the way a test asks for.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"

namespace idempotency {

// What becomes of one call.
struct CallFault {
  enum class Kind {
    kRefuse,       // answered with `status`, not forwarded
    kLoseAnswer,   // forwarded; when the service has answered, answered with `status` instead
    kHang,         // never answered, not forwarded
    kHangAfter,    // forwarded, its answer kept back
    kAnswer,       // answered OK with `bytes`, not forwarded
    kAnswerAfter,  // forwarded, then answered OK with `bytes` instead
    kChange        // forwarded, its answer changed by `change`
  };
  Kind kind = Kind::kRefuse;
  grpc::Status status;
  std::string bytes;
  std::function<std::string(const std::string&)> change;
  std::vector<std::pair<std::string, std::string>> trailers;
};

// UNAVAILABLE as from a broken connection: no details.
CallFault Refused(grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE);
CallFault AnswerLost();
CallFault Hanging();
CallFault HangingAfter();
CallFault Answering(std::string bytes);
CallFault AnsweringAfter(std::string bytes);
// `change` is given the service's answer as a message, and spoils it.
template <typename Response>
CallFault Changing(std::function<void(Response*)> change) {
  CallFault fault;
  fault.kind = CallFault::Kind::kChange;
  fault.change = [change = std::move(change)](const std::string& bytes) {
    Response response;
    response.ParseFromString(bytes);
    change(&response);
    return response.SerializeAsString();
  };
  return fault;
}
// As the service refuses: with ErrorInfo, and RetryInfo if `retry_ms` is not negative.
CallFault RefusedBecause(grpc::StatusCode code, const std::string& reason, int retry_ms = -1);
CallFault WithPushback(CallFault fault, const std::string& pushback_ms);

// Thread-safe. Calls are named by their method: "Begin".
class FaultProxy {
 public:
  // Listens on a free port of loopback.
  explicit FaultProxy(const std::string& upstream);
  // Cancels what is under way.
  ~FaultProxy();

  const std::string& address() const { return address_; }

  // For the next call of the method for which none is queued yet.
  void Next(const std::string& method, CallFault fault);
  // For all calls for which none is queued; nullopt: they are forwarded again.
  void Always(const std::string& method, std::optional<CallFault> fault);

  // The requests of the method so far, in order.
  std::vector<std::string> Requests(const std::string& method);
  size_t Count(const std::string& method) { return Requests(method).size(); }
  // As messages.
  template <typename Request>
  std::vector<Request> RequestsAs(const std::string& method) {
    std::vector<Request> requests;
    for (const std::string& bytes : Requests(method)) {
      requests.emplace_back().ParseFromString(bytes);
    }
    return requests;
  }
  // The connections from which the method was called.
  std::set<std::string> Peers(const std::string& method);

 private:
  class Service;
  class Call;

  // Keeps the request, and returns what is to become of it.
  std::optional<CallFault> Take(const std::string& method, const std::string& bytes,
                                const std::string& peer);

  const std::unique_ptr<grpc::GenericStub> upstream_;
  const std::unique_ptr<Service> service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;

  std::mutex mu_;  // guards what follows
  std::map<std::string, std::deque<CallFault>> next_;
  std::map<std::string, CallFault> always_;
  std::map<std::string, std::vector<std::string>> requests_;
  std::map<std::string, std::set<std::string>> peers_;
};

}  // namespace idempotency
