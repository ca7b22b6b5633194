#include "tests/client_cpp/client_fixture.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/src/attempt_id.h"
#include "grpcpp/security/credentials.h"
#include "tests/util/eventually.h"

namespace idempotency {

ReplicaProcesses& SharedService() {
  static MigratedDatabase* const database = new MigratedDatabase();
  static ReplicaProcesses* const service = new ReplicaProcesses(1, database->conninfo());
  return *service;
}

client::Channels ChannelsTo(const std::string& target) {
  client::ChannelOptions options;
  options.target = target;
  options.credentials = grpc::InsecureChannelCredentials();
  return client::MakeChannels(options);
}

client::ClientOptions QuickOptions() {
  client::ClientOptions options;
  // Far more than an answer needs on a busy machine; tests that want time-outs ask for less.
  options.rpc_timeout = std::chrono::seconds(20);
  return options;
}

client::Key NewKey() { return {"acme", absl::StrCat("key-", *client::NewAttemptId())}; }

client::Request PaymentOf(int amount) {
  return client::Request(
      "POST /payments",
      client::Payload{absl::StrCat("{\"amount\":", amount, "}"), "application/json"});
}

client::WorkResult Done(const std::string& body) {
  client::Outcome outcome;
  outcome.status_code = 201;
  outcome.headers = {{"Location", "/payments/1"}, {"Set-Cookie", "a"}, {"Set-Cookie", "b"}};
  outcome.content_type = "text/plain";
  outcome.body = body;
  outcome.response_id = "pay-1";
  return client::WorkResult::Completed(std::move(outcome));
}

client::WorkResult MustNotRun(const client::Attempt&) {
  ADD_FAILURE() << "the work ran";
  return client::WorkResult::Unknown("", "");
}

std::vector<std::string> FieldsOf(const client::Error& error) {
  std::vector<std::string> fields;
  for (const client::FieldViolation& violation : error.violations) {
    fields.push_back(violation.field);
  }
  return fields;
}

void AwaitStop(const client::Attempt& attempt) {
  EXPECT_TRUE(Eventually([&] { return attempt.stop.stop_requested(); })) << "not asked to stop";
}

client::RunResult ClientTest::RunElsewhere(const client::Work& fn, client::RunOptions options) {
  client::Client other(ChannelsTo(SharedService().address(0)), QuickOptions());
  return other.RunOnce(key_, PaymentOf(), client::OnLeaseExpiry::kTakeOver, fn, options);
}

v1::LookupResponse ClientTest::Lookup() const {
  v1::LookupRequest request = LookupOf(key_.idempotency_key);
  request.set_include_outcome(true);
  return SharedService().client(0).Lookup(request).response;
}

}  // namespace idempotency
