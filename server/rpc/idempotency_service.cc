#include "server/rpc/idempotency_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "google/protobuf/stubs/common.h"
#include "google/protobuf/stubs/logging.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/record/record_id.h"
#include "server/rpc/encoded_replay.h"
#include "server/rpc/errors.h"
#include "server/rpc/field_rules.h"
#include "server/rpc/translate.h"

namespace idempotency {
namespace {

// Protobuf prints a raw line for every string that is not UTF-8, and callers decide how many.
// Versions from 22 on log through Abseil instead, which the program's own log level stops.
void SilenceProtobuf() {
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler(nullptr);
#endif
}

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  // Shares the bytes: gRPC's reader takes its buffer apart, and this one is not ours.
  grpc::ByteBuffer copy(bytes);
  if (!copy.Valid()) return false;
  grpc::ProtoBufferReader reader(&copy);
  return reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
}

CallTerms TermsOf(const Call& call, absl::Duration wait) {
  return {.deadline = call.deadline(),
          .received = call.received(),
          .wait = wait,
          .caller_left = call.caller_left(),
          .trace = call.trace()};
}

void ToResponse(const OwnerResult& result, v1::CompleteResponse* response) {
  ToCompleteResponse(result, response);
}
void ToResponse(const OwnerResult& result, v1::FailResponse* response) {
  ToFailResponse(result, response);
}
void ToResponse(const OwnerResult& result, v1::RenewResponse* response) {
  ToRenewResponse(result, response);
}

}  // namespace

IdempotencyService::IdempotencyService(const RequestBounds& bounds, const Policy& policy,
                                       const ServiceParts& parts)
    : bounds_(bounds), policy_(policy), parts_(parts) {
  SilenceProtobuf();
}

Call* IdempotencyService::NewCall(RpcMethod method, grpc::CallbackServerContext* context,
                                  grpc::ByteBuffer* response) {
  return new Call(method, context, response,
                  {.clock = parts_.clock,
                   .log = parts_.log,
                   .metrics = parts_.metrics,
                   .answers = parts_.answers});
}

template <typename Request>
bool IdempotencyService::Admit(grpc::CallbackServerContext* context, const grpc::ByteBuffer& bytes,
                               Request* request, Call* call) {
  const std::variant<Caller, CredentialFault> identity =
      parts_.authenticator->Authenticate(*context);
  if (const auto* fault = std::get_if<CredentialFault>(&identity)) {
    call->Refuse(*fault == CredentialFault::kMissing ? CredentialsMissing() : CredentialsInvalid());
    return false;
  }
  if (!Parse(bytes, request)) {
    call->Refuse(UnparsableMessage());
    return false;
  }
  if (!std::get<Caller>(identity).MayActFor(request->merchant_id())) {
    call->Refuse(MerchantForbidden());
    return false;
  }
  return true;
}

bool IdempotencyService::AdmitMerchant(absl::string_view merchant_id, Call* call) {
  // What is no merchant's name is refused by validation, together with the message's other
  // mistakes.
  if (merchant_id.empty() || merchant_id.size() > kMaxMerchantIdBytes ||
      !IsMerchantId(merchant_id)) {
    return true;
  }
  auto entered = parts_.merchants->Enter(merchant_id, call->received());
  if (auto* place = std::get_if<MerchantLimits::Place>(&entered)) {
    call->HoldPlace(std::move(*place));
    return true;
  }
  const auto& refusal = std::get<MerchantLimits::Refusal>(entered);
  call->Refuse(refusal.bound == MerchantLimits::Bound::kRate
                   ? MerchantRateLimited(Jittered(refusal.until_token))
                   : MerchantHasTooManyCalls());
  return false;
}

grpc::ServerUnaryReactor* IdempotencyService::Begin(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  Call* const call = NewCall(RpcMethod::kBegin, context, response);
  auto message = std::make_unique<v1::BeginRequest>();
  if (!Admit(context, *request, message.get(), call)) return call;
  if (!AdmitMerchant(message->merchant_id(), call)) return call;
  // A payload over its bound is refused by its length alone.
  const size_t payload_bytes = message->payload().data().size();
  if (payload_bytes <= kInlinePayloadBytes || payload_bytes > kMaxPayloadBytes) {
    RunBegin(*message, call);
    return call;
  }
  // As it is held, and not the payload alone: a message of 4 MiB is let in with labels or fields
  // that only validation refuses.
  const size_t bytes = message->SpaceUsedLong();
  const std::string merchant = message->merchant_id();
  const auto refuse = [this, call] {
    parts_.metrics->Add(Metric::kOverloaded);
    call->Refuse(FaultError(Fault::kOverloaded, ""));
  };
  WorkerPool::Task task = [this, call, large = std::move(message)] { RunBegin(*large, call); };
  if (!parts_.workers->TryRun(task, bytes, {.merchant = merchant, .refuse = refuse})) refuse();
  return call;
}

void IdempotencyService::RunBegin(const v1::BeginRequest& request, Call* call) {
  ValidBegin valid;
  Violations violations;
  ValidateBegin(request, bounds_, &valid, &violations);
  if (!violations.empty()) {
    call->Refuse(InvalidFields(violations));
    return;
  }
  call->SetKey(valid.item.key);
  CallTerms terms = TermsOf(*call, valid.wait);
  AskedBegin asked_in{std::move(valid.attempt_id), valid.item.operation,
                      valid.item.fingerprint_scheme};
  parts_.engine->Begin(
      std::move(valid.item), std::move(terms),
      [this, call, asked = std::move(asked_in)](absl::StatusOr<BeginResult> result) {
        if (result.ok()) {
          AnswerBegin(*result, asked, call);
        } else {
          call->RefuseFault(result.status());
        }
      });
}

void IdempotencyService::AnswerBegin(const BeginResult& result, const AskedBegin& asked,
                                     Call* call) {
  switch (result.verdict) {
    case BeginVerdict::kReplay:
      AnswerReplay(result, call);
      return;
    case BeginVerdict::kStarted:
    case BeginVerdict::kInProgress: {
      v1::BeginResponse response;
      ToBeginResponse(result, asked.attempt_id, policy_, &response);
      // A start has happened and must be told.
      const bool has_room =
          result.verdict == BeginVerdict::kStarted || call->TakeRoom(response.ByteSizeLong());
      if (has_room) call->Answer(response);
      return;
    }
    case BeginVerdict::kKeyReused:
      parts_.log->OnKeyReused(RecordIdText(*result.record), asked.operation, *result.record,
                              call->trace());
      break;
    case BeginVerdict::kLeaseLost:
    case BeginVerdict::kNeedsResolution:
      break;
  }
  call->Refuse(BeginRefused(result, asked.fingerprint_scheme, policy_));
}

void IdempotencyService::AnswerReplay(const BeginResult& result, Call* call) {
  const EncodedReplay* encoded = result.memo == nullptr ? nullptr : EncodedReplayIn(*result.memo);
  if (encoded == nullptr) {
    v1::BeginResponse response;
    ToBeginResponse(result, /*attempt_id=*/"", policy_, &response);
    if (result.memo == nullptr) {
      if (!call->TakeRoom(response.ByteSizeLong())) return;
      parts_.log->OnReplay(response.record_id(), *result.record, call->trace());
      call->Answer(response);
      return;
    }
    encoded = &KeepEncoded(*result.memo, response,
                           parts_.log->CounterOf(response.record_id(), *result.record));
  }
  if (!call->TakeRoom(encoded->bytes().Length())) return;
  encoded->counter().Count(call->trace());
  call->AnswerEncoded(encoded->bytes());
}

template <typename Response>
void IdempotencyService::RunOwner(OwnerItem item, Call* call) {
  call->SetKey(item.key);
  parts_.engine->Owner(std::move(item), TermsOf(*call, absl::ZeroDuration()),
                       [call](absl::StatusOr<OwnerResult> result) {
                         if (!result.ok()) {
                           call->RefuseFault(result.status());
                           return;
                         }
                         switch (result->verdict) {
                           case OwnerVerdict::kRecorded:
                           case OwnerVerdict::kAlreadyRecorded:
                           case OwnerVerdict::kRenewed: {
                             Response response;
                             ToResponse(*result, &response);
                             call->Answer(response);
                             return;
                           }
                           case OwnerVerdict::kAlreadyFinished:
                           case OwnerVerdict::kOutcomeConflict:
                           case OwnerVerdict::kLeaseLost:
                           case OwnerVerdict::kRecordNotFound:
                           case OwnerVerdict::kNeedsResolution:
                             call->Refuse(OwnerRefused(result->verdict));
                             return;
                         }
                       });
}

grpc::ServerUnaryReactor* IdempotencyService::Complete(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  Call* const call = NewCall(RpcMethod::kComplete, context, response);
  v1::CompleteRequest message;
  if (!Admit(context, *request, &message, call)) return call;
  OwnerItem item;
  Violations violations;
  ValidateComplete(message, bounds_, &item, &violations);
  if (violations.empty()) {
    RunOwner<v1::CompleteResponse>(std::move(item), call);
  } else {
    call->Refuse(InvalidFields(violations));
  }
  return call;
}

grpc::ServerUnaryReactor* IdempotencyService::Fail(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  Call* const call = NewCall(RpcMethod::kFail, context, response);
  v1::FailRequest message;
  if (!Admit(context, *request, &message, call)) return call;
  OwnerItem item;
  Violations violations;
  ValidateFail(message, bounds_, &item, &violations);
  if (violations.empty()) {
    RunOwner<v1::FailResponse>(std::move(item), call);
  } else {
    call->Refuse(InvalidFields(violations));
  }
  return call;
}

grpc::ServerUnaryReactor* IdempotencyService::Renew(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  Call* const call = NewCall(RpcMethod::kRenew, context, response);
  v1::RenewRequest message;
  if (!Admit(context, *request, &message, call)) return call;
  OwnerItem item;
  Violations violations;
  ValidateRenew(message, bounds_, &item, &violations);
  if (violations.empty()) {
    RunOwner<v1::RenewResponse>(std::move(item), call);
  } else {
    call->Refuse(InvalidFields(violations));
  }
  return call;
}

grpc::ServerUnaryReactor* IdempotencyService::Lookup(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  Call* const call = NewCall(RpcMethod::kLookup, context, response);
  v1::LookupRequest message;
  if (!Admit(context, *request, &message, call)) return call;
  if (!AdmitMerchant(message.merchant_id(), call)) return call;
  LookupItem item;
  Violations violations;
  ValidateLookup(message, &item, &violations);
  if (!violations.empty()) {
    call->Refuse(InvalidFields(violations));
    return call;
  }
  call->SetKey(item.key);
  const bool include_outcome = message.include_outcome();
  parts_.engine->Lookup(std::move(item), TermsOf(*call, absl::ZeroDuration()),
                        [this, call, include_outcome](absl::StatusOr<LookupResult> result) {
                          if (!result.ok()) {
                            call->RefuseFault(result.status());
                          } else if (result->record == nullptr) {
                            call->Refuse(RecordNotFound());
                          } else {
                            v1::LookupResponse answer;
                            ToLookupResponse(*result, include_outcome, policy_, &answer);
                            if (call->TakeRoom(answer.ByteSizeLong())) call->Answer(answer);
                          }
                        });
  return call;
}

}  // namespace idempotency
