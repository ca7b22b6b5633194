// The C++ client against the real service: real PostgreSQL, the real binary, and a proxy between
// them that loses what a test wants lost.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "idempotency/client/client.h"
#include "tests/client_cpp/fault_proxy.h"
#include "tests/e2e/replicas.h"

namespace idempotency {

// One replica for the whole test binary, with bounds that let leases be short: the skew margin is
// 200 ms. It ends with the binary.
ReplicaProcesses& SharedService();

// Channels without credentials.
client::Channels ChannelsTo(const std::string& target);

// Short spans, so that no test waits for the defaults.
client::ClientOptions QuickOptions();

// Of merchant "acme", a key that no other test has.
client::Key NewKey();
client::Request PaymentOf(int amount = 100);
client::WorkResult Done(const std::string& body = "paid");

// As `fn`: fails the test.
client::WorkResult MustNotRun(const client::Attempt& attempt);

// Waits until the attempt is asked to stop. For use in `fn`; fails the test after a minute.
void AwaitStop(const client::Attempt& attempt);

// The fields of its violations.
std::vector<std::string> FieldsOf(const client::Error& error);

// The alternative of that type. Fails the test, and returns an empty one, if it is another.
template <typename Expected>
Expected ResultAs(const client::RunResult& result) {
  if (const auto* found = std::get_if<Expected>(&result)) return *found;
  const auto* error = std::get_if<client::Error>(&result);
  ADD_FAILURE() << "another result, index " << result.index() << ": "
                << (error == nullptr
                        ? ""
                        : std::string(client::ErrorKindName(error->kind)) + " " + error->message);
  return Expected();
}

class ClientTest : public testing::Test {
 protected:
  ClientTest() : proxy_(SharedService().address(0)), key_(NewKey()) {}

  // Of the proxy. The options' hooks are taken as they are.
  std::unique_ptr<client::Client> NewClient(client::ClientOptions options = QuickOptions()) {
    return std::make_unique<client::Client>(ChannelsTo(proxy_.address()), std::move(options));
  }
  // A call by somebody else, past the proxy.
  client::RunResult RunElsewhere(const client::Work& fn, client::RunOptions options = {});

  // What the service knows, past the proxy.
  v1::LookupResponse Lookup() const;
  bool IsState(v1::RecordState state) const { return Lookup().state() == state; }

  FaultProxy proxy_;
  const client::Key key_;
};

}  // namespace idempotency
