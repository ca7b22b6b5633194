// A caller that owns a key's work, for tests to kill: Begins, says so, and works for ever.
//
//   e2e_owner ADDRESS KEY ATTEMPT_ID LEASE [hold]
#include <unistd.h>

#include <iostream>
#include <string>

#include "absl/time/time.h"
#include "tests/e2e/client.h"

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  absl::Duration lease;
  if (!absl::ParseDuration(argv[4], &lease)) return 2;
  idempotency::v1::BeginRequest request = idempotency::BeginOf(argv[2], "");
  request.set_attempt_id(argv[3]);
  idempotency::SetDuration(request.mutable_lease_duration(), lease);
  if (argc > 5 && std::string(argv[5]) == "hold") {
    request.set_on_lease_expiry(idempotency::v1::LEASE_EXPIRY_ACTION_HOLD);
  }
  idempotency::Client client(argv[1]);
  const auto called = client.Begin(request);
  if (!called.response.has_started()) {
    std::cout << called.status.error_message() << std::endl;
    return 1;
  }
  std::cout << "started" << std::endl;
  while (true) pause();
}
