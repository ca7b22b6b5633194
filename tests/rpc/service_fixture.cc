#include "tests/rpc/service_fixture.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "server/base/check.h"
#include "server/record/limit.h"
#include "tests/rpc/request_samples.h"

namespace idempotency {
namespace {

LogOptions DebugTo(std::ostream* output) {
  LogOptions options;
  options.output = output;
  options.level = LogLevel::kDebug;
  return options;
}

std::unique_ptr<Server> StartOrDie(grpc::Service* service) {
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start("127.0.0.1:0", service);
  IDEM_CHECK(server.ok()) << server.status().ToString();
  return *std::move(server);
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A channel of its own for every test, and no second try behind its back.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

Record RecordOf(const BeginItem& item) {
  Record record;
  record.key = item.key;
  record.operation = item.operation;
  record.fingerprint = item.fingerprint;
  record.created_at = absl::FromUnixSeconds(1'767'225'600);
  record.ttl = item.ttl;
  record.attempt = item.attempt;
  record.fencing_token = 1;
  record.started_at = record.created_at;
  record.lease_duration = item.lease_duration;
  record.lease_expires_at = record.created_at + item.lease_duration;
  return record;
}

}  // namespace

ServiceFixture::ServiceFixture(const MerchantLimitOptions& merchant_limits, Clock* clock)
    : log_(DebugTo(&log_output_)),
      call_log_(&log_, SystemClock()),
      merchants_(merchant_limits, &metrics_),
      answers_(kAnswerBytes, &metrics_),
      workers_(1, 1, 4 * kMaxReceiveBytes),
      service_(RequestBounds(), Policy(),
               ServiceParts{.engine = &engine_,
                            .authenticator = &authenticator_,
                            .merchants = &merchants_,
                            .answers = &answers_,
                            .workers = &workers_,
                            .log = &call_log_,
                            .clock = clock,
                            .metrics = &metrics_}),
      server_(StartOrDie(&service_)),
      channel_(ChannelTo(server_->address())),
      stub_(v1::IdempotencyService::NewStub(channel_)) {}

ServiceFixture::~ServiceFixture() {
  engine_.Drain();
  server_.reset();
}

grpc::Status ServiceFixture::CallRaw(const std::string& method, absl::string_view bytes) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes.data(), bytes.size());
  const grpc::ByteBuffer request(&slice, 1);
  const auto call = stub.PrepareUnaryCall(
      &context, absl::StrCat("/idempotency.v1.IdempotencyService/", method), request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  IDEM_CHECK(queue.Next(&tag, &ok)) << "the queue was shut down";
  return status;
}

grpc::Status ServiceFixture::BeginWhile(const v1::BeginRequest& request,
                                        v1::BeginResponse* response,
                                        const std::function<void()>& answer,
                                        grpc::ClientContext* context) {
  grpc::ClientContext own;
  grpc::Status status;
  std::thread caller(
      [&] { status = stub_->Begin(context == nullptr ? &own : context, request, response); });
  answer();
  caller.join();
  return status;
}

void ServiceFixture::ExpectUnharmed() {
  v1::BeginResponse response;
  const grpc::Status status = BeginWhile(SampleBegin(), &response, [this] {
    FakeEngine::BeginCall call = engine_.TakeBegin();
    std::move(call.done)(StartedResult(call.item));
  });
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.has_started());
}

std::string ServiceFixture::StopLog() {
  call_log_.FlushReplays();
  log_.Stop();
  return log_output_.str();
}

BeginResult StartedResult(const BeginItem& item) {
  BeginResult result;
  result.verdict = BeginVerdict::kStarted;
  result.record = std::make_shared<const Record>(RecordOf(item));
  result.reading.now = result.record->created_at;
  return result;
}

BeginResult ReplayResult(const BeginItem& item, Answer answer) {
  Record record = RecordOf(item);
  record.state = StateAfter(answer);
  record.finished_at = record.created_at + absl::Seconds(1);
  record.answer = std::make_shared<const Answer>(std::move(answer));
  BeginResult result;
  result.verdict = BeginVerdict::kReplay;
  result.reading.now = *record.finished_at;
  result.record = std::make_shared<const Record>(std::move(record));
  return result;
}

}  // namespace idempotency
