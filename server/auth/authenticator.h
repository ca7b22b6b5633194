// Who is calling: the seam for credentials.
//
// rpc/ asks the Authenticator once for every call, before it looks at the message. The caller that
// it names belongs to that call alone: connections are shared by proxies, so nothing of it is kept
// with the connection.
#pragma once

#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"

namespace idempotency {

// What a caller may do.
struct Caller {
  // For logs. Never a credential.
  std::string name;
  // Every merchant; otherwise `merchant_id` alone.
  bool any_merchant = false;
  std::string merchant_id;

  bool MayActFor(absl::string_view merchant) const {
    return any_merchant || absl::string_view(merchant_id) == merchant;
  }
};

enum class CredentialFault { kMissing, kInvalid };

// Thread-safe: called from gRPC's threads, and must not block.
class Authenticator {
 public:
  virtual ~Authenticator() = default;

  virtual std::variant<Caller, CredentialFault> Authenticate(
      const grpc::CallbackServerContext& context) = 0;
};

// What `--insecure` stands for: everybody may do everything. Thread-safe.
class InsecureAuthenticator : public Authenticator {
 public:
  std::variant<Caller, CredentialFault> Authenticate(const grpc::CallbackServerContext&) override {
    return Caller{.name = "insecure", .any_merchant = true};
  }
};

}  // namespace idempotency
