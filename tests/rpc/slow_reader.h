// A client that asks and takes no answer: the windows that it gives stay as small as they were at
// first, because nothing asks gRPC for what came.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message_lite.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace idempotency {

// For one thread at a time. The destructor cuts off what is under way.
class SlowReader {
 public:
  // Of each answer so many bytes come over before they are asked for; gRPC takes no fewer.
  static constexpr int kWindowBytes = 65'535;

  explicit SlowReader(const std::string& address);
  ~SlowReader();
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;

  // Sends a call's whole request. Returns its number.
  size_t Send(const std::string& method, const google::protobuf::MessageLite& request);
  // Waits until the answer's first bytes are here: the server has written all that it may.
  void AwaitFirstBytes(size_t number);
  // Takes the whole answer. False: there was none, but an error.
  bool Take(size_t number, google::protobuf::MessageLite* answer);
  void Cancel(size_t number) { calls_[number]->context.TryCancel(); }

 private:
  struct OneCall {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  };
  // Waits for the operation that was started last; says whether it succeeded.
  bool Await();

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<OneCall>> calls_;
};

}  // namespace idempotency
