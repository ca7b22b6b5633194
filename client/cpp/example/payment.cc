// A tiny payment service with a partner that takes the money and then does not answer.
//
//   ./dev run                                          # the service, in another terminal
//   idempotency_client_example 127.0.0.1:50051
//
// Pays one order three times, as a client that lost the answer would. The partner's first answer is
// lost after it took the money. What happens:
//
//   call 1   the partner's time-out says nothing about the money, so the attempt ends UNKNOWN; the
//            payer is told so (502), and to try again with the same key
//   call 2   is told that an attempt ended unknown, asks the partner by the downstream key, learns
//            that the money moved, and records that: no second transfer
//   call 3   gets the recorded answer, byte for byte, without touching the partner
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "grpcpp/security/credentials.h"
#include "idempotency/client/client.h"
#include "idempotency/client/downstream_key.h"
#include "idempotency/client/http_answer.h"
#include "idempotency/client/keys.h"

namespace {

namespace client = idempotency::client;

// The bank at the other end. It remembers transfers by the key that comes with them, which it wants
// to be 20 digits.
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

// What an HTTP handler for POST /payments does.
client::HttpAnswer Pay(client::Runner& runner, Partner& partner, const client::Key& key) {
  const client::Request request("POST /payments",
                                client::Payload{R"({"amount":50})", "application/json"});
  const auto work = [&](const client::Attempt& attempt) {
    const auto transfer_key =
        std::get<std::string>(attempt.DownstreamKeyFor("acme-bank", client::KeyShape::Digits(20)));
    if (attempt.unknown_attempts > 0) {
      // An earlier attempt may have moved the money: ask before paying.
      if (const auto transfer = partner.Find(transfer_key)) return Paid(*transfer);
    }
    // Whatever this throws is recorded as UNKNOWN.
    return Paid(partner.Transfer(transfer_key, 50));
  };
  return client::HttpAnswerOf(runner.RunOnce(key, request, client::OnLeaseExpiry::kTakeOver, work));
}

bool IsReplay(const client::HttpAnswer& answer) {
  return std::any_of(
      answer.headers.begin(), answer.headers.end(),
      [](const client::Header& header) { return header.name == "Idempotent-Replayed"; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "Usage: %s HOST:PORT [ORDER]\n", argv[0]);
    return 2;
  }
  client::ChannelOptions channel;
  channel.target = argv[1];
  channel.credentials = grpc::InsecureChannelCredentials();  // the service of ./dev run
  client::Client runner(client::MakeChannels(channel));
  Partner partner;

  // The order's number makes the key: the same for every try to pay it.
  const std::string order = argc > 2 ? argv[2] : client::RandomRequestId();
  const client::Key key = client::BusinessKeyFor("shop-1", "pay", {order});
  client::HttpAnswer answer;
  for (int call = 1; call <= 3; ++call) {
    answer = Pay(runner, partner, key);
    std::printf("call %d: HTTP %d, %s%s\n", call, answer.status,
                IsReplay(answer) ? "replayed, " : "", answer.body.c_str());
  }
  std::printf("money moved: %d\n", partner.balance());
  return partner.balance() == 50 && answer.status == 201 ? 0 : 1;
}
