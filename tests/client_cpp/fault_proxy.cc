#include "tests/client_cpp/fault_proxy.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

CallFault Make(CallFault::Kind kind, grpc::Status status = grpc::Status::OK) {
  CallFault fault;
  fault.kind = kind;
  fault.status = std::move(status);
  return fault;
}

}  // namespace

CallFault Refused(grpc::StatusCode code) {
  return Make(CallFault::Kind::kRefuse, grpc::Status(code, "by the proxy"));
}
CallFault AnswerLost() {
  return Make(CallFault::Kind::kLoseAnswer,
              grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection reset"));
}
CallFault Hanging() { return Make(CallFault::Kind::kHang); }
CallFault HangingAfter() { return Make(CallFault::Kind::kHangAfter); }
CallFault Answering(std::string bytes) {
  CallFault fault = Make(CallFault::Kind::kAnswer);
  fault.bytes = std::move(bytes);
  return fault;
}
CallFault AnsweringAfter(std::string bytes) {
  CallFault fault = Make(CallFault::Kind::kAnswerAfter);
  fault.bytes = std::move(bytes);
  return fault;
}

CallFault RefusedBecause(grpc::StatusCode code, const std::string& reason, int retry_ms) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("idempotency.v1");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  if (retry_ms >= 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(retry_ms % 1000 * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  return Make(CallFault::Kind::kRefuse,
              grpc::Status(code, "by the proxy", details.SerializeAsString()));
}

CallFault WithPushback(CallFault fault, const std::string& pushback_ms) {
  fault.trailers.emplace_back("grpc-retry-pushback-ms", pushback_ms);
  return fault;
}

// One unary call. Deletes itself when gRPC has let go of it.
class FaultProxy::Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(FaultProxy* proxy, grpc::GenericCallbackServerContext* context)
      : proxy_(proxy), context_(context) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      End(grpc::Status(grpc::StatusCode::CANCELLED, "no request"));
      return;
    }
    const std::string method = context_->method().substr(context_->method().rfind('/') + 1);
    fault_ = proxy_->Take(method, BytesOf(request_), context_->peer());
    if (fault_.has_value()) {
      for (const auto& [name, value] : fault_->trailers) context_->AddTrailingMetadata(name, value);
      if (fault_->kind == CallFault::Kind::kRefuse) return End(fault_->status);
      if (fault_->kind == CallFault::Kind::kHang) return HangOn();
      if (fault_->kind == CallFault::Kind::kAnswer) return Answer(fault_->bytes);
    }
    // On its own: a caller that leaves does not take the forwarded call with it.
    upstream_context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(40));
    proxy_->upstream_->UnaryCall(&upstream_context_, context_->method(), grpc::StubOptions(),
                                 &request_, &response_,
                                 [this](const grpc::Status& status) { OnUpstream(status); });
  }

  void OnUpstream(const grpc::Status& status) {
    if (fault_.has_value()) {
      if (fault_->kind == CallFault::Kind::kLoseAnswer) return End(fault_->status);
      if (fault_->kind == CallFault::Kind::kHangAfter) return HangOn();
      if (fault_->kind == CallFault::Kind::kAnswerAfter) return Answer(fault_->bytes);
      if (fault_->kind == CallFault::Kind::kChange && status.ok()) {
        return Answer(fault_->change(BytesOf(response_)));
      }
    }
    for (const auto& [name, value] : upstream_context_.GetServerTrailingMetadata()) {
      context_->AddTrailingMetadata({name.data(), name.size()}, {value.data(), value.size()});
    }
    if (!status.ok()) return End(status);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void Answer(const std::string& bytes) {
    response_ = BufferOf(bytes);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void HangOn() {
    const std::lock_guard lock(mu_);
    hangs_ = true;
    if (is_cancelled_) End(grpc::Status::CANCELLED);
  }

  void OnCancel() override {
    const std::lock_guard lock(mu_);
    is_cancelled_ = true;
    if (hangs_) End(grpc::Status::CANCELLED);
  }

  void End(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }

  FaultProxy* const proxy_;
  grpc::GenericCallbackServerContext* const context_;
  std::optional<CallFault> fault_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  grpc::ClientContext upstream_context_;
  std::mutex mu_;  // guards what follows
  bool hangs_ = false;
  bool is_cancelled_ = false;
};

class FaultProxy::Service : public grpc::CallbackGenericService {
 public:
  explicit Service(FaultProxy* proxy) : proxy_(proxy) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(proxy_, context);
  }

 private:
  FaultProxy* const proxy_;
};

FaultProxy::FaultProxy(const std::string& upstream)
    : upstream_(std::make_unique<grpc::GenericStub>(
          grpc::CreateChannel(upstream, grpc::InsecureChannelCredentials()))),
      service_(std::make_unique<Service>(this)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
  IDEM_CHECK(server_ != nullptr && port != 0) << "the proxy cannot listen";
  address_ = absl::StrCat("127.0.0.1:", port);
}

FaultProxy::~FaultProxy() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FaultProxy::Next(const std::string& method, CallFault fault) {
  const std::lock_guard lock(mu_);
  next_[method].push_back(std::move(fault));
}

void FaultProxy::Always(const std::string& method, std::optional<CallFault> fault) {
  const std::lock_guard lock(mu_);
  always_.erase(method);
  if (fault.has_value()) always_.emplace(method, *std::move(fault));
}

std::vector<std::string> FaultProxy::Requests(const std::string& method) {
  const std::lock_guard lock(mu_);
  return requests_[method];
}

std::set<std::string> FaultProxy::Peers(const std::string& method) {
  const std::lock_guard lock(mu_);
  return peers_[method];
}

std::optional<CallFault> FaultProxy::Take(const std::string& method, const std::string& bytes,
                                          const std::string& peer) {
  const std::lock_guard lock(mu_);
  requests_[method].push_back(bytes);
  peers_[method].insert(peer);
  std::deque<CallFault>& queued = next_[method];
  if (!queued.empty()) {
    CallFault fault = std::move(queued.front());
    queued.pop_front();
    return fault;
  }
  const auto always = always_.find(method);
  if (always == always_.end()) return std::nullopt;
  return always->second;
}

}  // namespace idempotency
