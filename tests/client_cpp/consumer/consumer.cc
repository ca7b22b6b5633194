// Usage: consumer HOST:PORT KEY. Runs once, then again: prints what both came to.
#include <cstdio>

#include "grpcpp/security/credentials.h"
#include "idempotency/client/client.h"
#include "idempotency/client/fake_runner.h"
#include "idempotency/client/version.h"
// The stubs come with the package.
#include "idempotency/v1/error.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace client = idempotency::client;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  client::ChannelOptions channel;
  channel.target = argv[1];
  channel.credentials = grpc::InsecureChannelCredentials();
  client::Client runner(client::MakeChannels(channel));
  const auto run = [&] {
    return runner.RunOnce({"acme", argv[2]}, {"POST /payments", client::Payload{"50", ""}},
                          client::OnLeaseExpiry::kTakeOver, [](const client::Attempt&) {
                            client::Outcome outcome;
                            outcome.body = "paid";
                            return client::WorkResult::Completed(outcome);
                          });
  };
  const client::RunResult first = run();
  const client::RunResult second = run();
  const client::Outcome* const answer = client::OutcomeOf(second);
  std::printf("%s %d %d %s\n", IDEMPOTENCY_CLIENT_VERSION,
              std::holds_alternative<client::Completed>(first),
              std::holds_alternative<client::Replayed>(second),
              answer == nullptr ? "" : answer->body.value_or("").c_str());
  return 0;
}
