// noop_server: the ceiling. Answers every call with the same bytes, through the same raw callback
// methods as the service, without looking at the request: what a gRPC server costs that does
// nothing.
//
//   noop_server HOST:PORT        runs until it is killed
#include <iostream>
#include <string>

#include "absl/time/clock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/rpc/server.h"
#include "server/rpc/translate.h"

namespace idempotency::bench {
namespace {

// A started attempt with every field that a real one has, so that it is as long.
grpc::ByteBuffer StartedBytes() {
  v1::BeginResponse response;
  response.set_record_id("018f2f5e-7c3a-8b1d-9e4f-2a6c8d0b1e3f");
  response.set_on_lease_expiry(v1::LEASE_EXPIRY_ACTION_TAKE_OVER);
  v1::Started* const started = response.mutable_started();
  started->set_attempt_id("5f0c1e7a-93b2-4d68-8a1e-6c2f4b7d9e03");
  started->set_attempt_number(1);
  started->set_fencing_token(1'700'000'000'000'000);
  *started->mutable_lease_remaining() = ToProtoDuration(absl::Seconds(60));
  *started->mutable_lease_expire_time() = ToTimestamp(absl::FromUnixMicros(1'700'000'000'123'456));
  started->set_downstream_key("3a7d9e1c-5b2f-5e84-9c6a-1d0f8b4e7a29");
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

class NoopService final
    : public v1::IdempotencyService::WithRawCallbackMethod_Begin<v1::IdempotencyService::Service> {
 public:
  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* /*request*/,
                                  grpc::ByteBuffer* response) override {
    *response = started_;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const grpc::ByteBuffer started_ = StartedBytes();
};

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: noop_server HOST:PORT" << std::endl;
    return 2;
  }
  idempotency::bench::NoopService service;
  // The service's own set-up: the same limits, health and reflection.
  const auto server = idempotency::Server::Start(argv[1], &service);
  if (!server.ok()) {
    std::cerr << "noop_server: " << server.status().message() << std::endl;
    return 1;
  }
  absl::SleepFor(absl::InfiniteDuration());
}
