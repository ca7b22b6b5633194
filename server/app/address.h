// host:port, as in `listen`: taken apart, checked, and turned into what a client can dial.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency {

struct Address {
  // Of an IPv6 address without its brackets.
  std::string host;
  int port = 0;
};

// "127.0.0.1:50051", "db.example:1", "[::1]:0". kInvalidArgument says what an address looks like
// and does not repeat the text.
absl::StatusOr<Address> ParseAddress(absl::string_view text);
// As a row of the table of settings wants it.
absl::Status CheckAddress(absl::string_view text);

// By number, or by the one name that is always this machine's: 127.example.com may be anybody's.
bool IsLoopback(const Address& address);

// Where a client on this machine reaches what listens on `listen`: every address (0.0.0.0, [::]) is
// reached over loopback. kInvalidArgument for port 0, of which nobody knows what it became.
absl::StatusOr<std::string> DialAddress(absl::string_view listen);

}  // namespace idempotency
