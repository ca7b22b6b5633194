// idempotency.v1.IdempotencyService: authenticate, authorise, validate, call the engine, translate.
//
// The handlers are gRPC's raw callback methods and parse the message themselves, because the
// generated ones answer a message that cannot be parsed with an empty UNIMPLEMENTED. They never
// block: what takes long (a payload over kInlinePayloadBytes) goes to the worker pool, everything
// else to the engine, whose callback answers the call.
#pragma once

#include <memory>
#include <variant>

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/engine/engine.h"
#include "server/engine/merchant_limits.h"
#include "server/record/decide.h"
#include "server/record/limit.h"
#include "server/rpc/answer_room.h"
#include "server/rpc/call.h"
#include "server/rpc/call_log.h"
#include "server/rpc/validate.h"
#include "server/rpc/worker_pool.h"

namespace idempotency {

// Up to this size a payload is canonicalised on gRPC's own thread: at most a few milliseconds.
inline constexpr size_t kInlinePayloadBytes = 64 * kKiB;

// What the service works with; all of it must outlive the service.
struct ServiceParts {
  Engine* engine = nullptr;
  Authenticator* authenticator = nullptr;
  MerchantLimits* merchants = nullptr;
  AnswerRoom* answers = nullptr;
  WorkerPool* workers = nullptr;
  CallLog* log = nullptr;
  Clock* clock = nullptr;
  Metrics* metrics = nullptr;
};

using RawIdempotencyService = v1::IdempotencyService::WithRawCallbackMethod_Begin<
    v1::IdempotencyService::WithRawCallbackMethod_Complete<
        v1::IdempotencyService::WithRawCallbackMethod_Fail<
            v1::IdempotencyService::WithRawCallbackMethod_Renew<
                v1::IdempotencyService::WithRawCallbackMethod_Lookup<
                    v1::IdempotencyService::Service>>>>>;

// Thread-safe. Must outlive the gRPC server that it is registered with.
class IdempotencyService final : public RawIdempotencyService {
 public:
  IdempotencyService(const RequestBounds& bounds, const Policy& policy, const ServiceParts& parts);

  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Fail(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  Call* NewCall(RpcMethod method, grpc::CallbackServerContext* context, grpc::ByteBuffer* response);
  // Parses and authorises. False: the call has been refused.
  template <typename Request>
  bool Admit(grpc::CallbackServerContext* context, const grpc::ByteBuffer& bytes, Request* request,
             Call* call);
  // For Begin and Lookup, before anything that costs: the payload's fingerprint, the replay cache,
  // the queue. False: the merchant is over a limit of its own and the call has been refused.
  bool AdmitMerchant(absl::string_view merchant_id, Call* call);
  // Validates, then calls the engine; also on a worker thread.
  void RunBegin(const v1::BeginRequest& request, Call* call);
  // What an answer needs of what was asked; the rest goes to the engine.
  struct AskedBegin {
    std::string attempt_id;
    std::string operation;
    int32_t fingerprint_scheme;
  };
  void AnswerBegin(const BeginResult& result, const AskedBegin& asked, Call* call);
  // From what is kept beside the record, if the replay is one of the cache's.
  void AnswerReplay(const BeginResult& result, Call* call);
  // Complete, Fail and Renew, told apart by Response.
  template <typename Response>
  void RunOwner(OwnerItem item, Call* call);

  const RequestBounds bounds_;
  const Policy policy_;
  const ServiceParts parts_;
};

}  // namespace idempotency
