#include "server/app/address.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency {
namespace {

constexpr char kDigits[] = "0123456789";
constexpr char kHostCharacters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
// Zone ids (fe80::1%eth0) included.
constexpr char kIpv6Characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:%-_";
// The longest that DNS has.
constexpr size_t kMaxHostBytes = 253;

absl::Status Malformed() {
  return absl::InvalidArgumentError(
      "must be host:port with a port from 0 to 65535, such as 127.0.0.1:50051 or [::1]:50051");
}

bool ConsistsOf(absl::string_view text, absl::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == absl::string_view::npos;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Malformed();
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  const bool is_bracketed = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (!ConsistsOf(host, is_bracketed ? kIpv6Characters : kHostCharacters) ||
      host.size() > kMaxHostBytes) {
    return Malformed();
  }
  Address address;
  address.host = std::string(host);
  if (!ConsistsOf(port, kDigits) || port.size() > 5 || !absl::SimpleAtoi(port, &address.port) ||
      address.port > 65535) {
    return Malformed();
  }
  return address;
}

absl::Status CheckAddress(absl::string_view text) { return ParseAddress(text).status(); }

bool IsLoopback(const Address& address) {
  return address.host == "localhost" || address.host == "::1" ||
         (absl::StartsWith(address.host, "127.") &&
          address.host.find_first_not_of("0123456789.") == std::string::npos);
}

absl::StatusOr<std::string> DialAddress(absl::string_view listen) {
  absl::StatusOr<Address> address = ParseAddress(listen);
  if (!address.ok()) return address.status();
  if (address->port == 0) {
    return absl::InvalidArgumentError(
        "has port 0, a free one that only the server's log names: say which with --address");
  }
  if (address->host == "0.0.0.0") address->host = "127.0.0.1";
  if (address->host == "::") address->host = "::1";
  const bool is_ipv6 = absl::StrContains(address->host, ":");
  return is_ipv6 ? absl::StrCat("[", address->host, "]:", address->port)
                 : absl::StrCat(address->host, ":", address->port);
}

}  // namespace idempotency
