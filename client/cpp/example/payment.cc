// A tiny payment service with a partner that takes the money and then does not answer.
//
//   ./dev run                                          # the service, in another terminal
//   idempotency_client_example 127.0.0.1:50051
//
// Pays one order three times, as a client that lost the answer would. The partner's first answer is
// lost after it took the money. What happens:
//
//   call 1   the partner's time-out says nothing about the money, so the attempt ends UNKNOWN
//   call 2   is told that an attempt ended unknown, asks the partner by the downstream key, learns
//            that the money moved, and records that: no second transfer
//   call 3   gets the recorded answer, byte for byte, without touching the partner
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "grpcpp/security/credentials.h"
#include "idempotency/client/client.h"

namespace {

namespace client = idempotency::client;

// The bank at the other end. It remembers transfers by the key that comes with them.
class Partner {
 public:
  // Takes the money, once for each downstream key. Throws when no answer comes back.
  std::string Transfer(const std::string& downstream_key, int amount) {
    const auto known = transfers_.find(downstream_key);
    if (known != transfers_.end()) return known->second;
    balance_ += amount;
    const std::string id = "tr-" + std::to_string(transfers_.size() + 1);
    transfers_[downstream_key] = id;
    if (transfers_.size() == 1) throw std::runtime_error("the partner did not answer in time");
    return id;
  }

  // Whether a transfer with that key is known.
  std::optional<std::string> Find(const std::string& downstream_key) const {
    const auto known = transfers_.find(downstream_key);
    if (known == transfers_.end()) return std::nullopt;
    return known->second;
  }

  int balance() const { return balance_; }

 private:
  std::map<std::string, std::string> transfers_;
  int balance_ = 0;
};

client::WorkResult Paid(const std::string& transfer) {
  client::Outcome outcome;
  outcome.status_code = 201;
  outcome.content_type = "application/json";
  outcome.body = R"({"transfer":")" + transfer + R"("})";
  outcome.response_id = transfer;
  return client::WorkResult::Completed(std::move(outcome));
}

// What an HTTP handler for POST /payments would do.
client::RunResult Pay(client::Runner& runner, Partner& partner, const client::Key& key) {
  const client::Request request("POST /payments",
                                client::Payload{R"({"amount":50})", "application/json"});
  return runner.RunOnce(key, request, client::OnLeaseExpiry::kTakeOver,
                        [&](const client::Attempt& attempt) {
                          if (attempt.unknown_attempts > 0) {
                            if (const auto transfer = partner.Find(attempt.downstream_key))
                              return Paid(*transfer);
                          }
                          // Whatever this throws is recorded as UNKNOWN.
                          return Paid(partner.Transfer(attempt.downstream_key, 50));
                        });
}

const char* Describe(const client::RunResult& result) {
  if (std::holds_alternative<client::Completed>(result)) return "did the work, and it is recorded";
  if (std::holds_alternative<client::Replayed>(result)) return "got the recorded answer";
  if (std::holds_alternative<client::InProgress>(result)) return "in progress elsewhere: 409";
  if (std::holds_alternative<client::Failed>(result)) return "ended unknown: 502, try again";
  return std::get<client::Error>(result).message.c_str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "Usage: %s HOST:PORT [KEY]\n", argv[0]);
    return 2;
  }
  client::ChannelOptions channel;
  channel.target = argv[1];
  channel.credentials = grpc::InsecureChannelCredentials();  // the service of ./dev run
  client::Client runner(client::MakeChannels(channel));
  Partner partner;

  const client::Key key = {"shop-1", argc > 2 ? argv[2] : "order-" + std::to_string(time(nullptr))};
  std::string answer;
  for (int call = 1; call <= 3; ++call) {
    const client::RunResult result = Pay(runner, partner, key);
    const client::Outcome* const outcome = client::OutcomeOf(result);
    if (outcome != nullptr) answer = outcome->body.value_or("");
    std::printf("call %d: %s%s%s\n", call, Describe(result), outcome == nullptr ? "" : ": ",
                outcome == nullptr ? "" : answer.c_str());
  }
  std::printf("money moved: %d\n", partner.balance());
  return partner.balance() == 50 && !answer.empty() ? 0 : 1;
}
