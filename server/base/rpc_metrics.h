// The metrics that every gRPC server has by convention: calls started, calls handled by code, and
// how long they took, for each method of the service.
//
// Thread-safe and lock-free. Every method and code exists from the start, at zero. Counted are
// calls that reach the service's code; what gRPC itself refuses (an unknown method, a message over
// the receive limit) never does.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/histogram.h"

namespace idempotency {

// The methods of idempotency.v1.IdempotencyService.
enum class RpcMethod : size_t { kBegin, kComplete, kFail, kRenew, kLookup };

inline constexpr size_t kRpcMethods = 5;
inline constexpr absl::string_view kRpcMethodNames[kRpcMethods] = {"Begin", "Complete", "Fail",
                                                                   "Renew", "Lookup"};
constexpr absl::string_view RpcMethodName(RpcMethod method) {
  return kRpcMethodNames[static_cast<size_t>(method)];
}

// gRPC's status codes by number, as its metrics spell them.
inline constexpr size_t kRpcCodes = 17;
inline constexpr absl::string_view kRpcCodeNames[kRpcCodes] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

class RpcMetrics {
 public:
  void Started(RpcMethod method) { Of(method).started.fetch_add(1, std::memory_order_relaxed); }
  // `code` is gRPC's number; one that does not exist counts as Unknown.
  void Handled(RpcMethod method, int code, absl::Duration took) {
    const size_t known =
        code >= 0 && code < static_cast<int>(kRpcCodes) ? static_cast<size_t>(code) : kUnknownCode;
    Of(method).handled[known].fetch_add(1, std::memory_order_relaxed);
    Of(method).took.Observe(took);
  }

  uint64_t StartedCount(RpcMethod method) const {
    return Of(method).started.load(std::memory_order_relaxed);
  }
  uint64_t HandledCount(RpcMethod method, size_t code) const {
    return Of(method).handled[code].load(std::memory_order_relaxed);
  }
  const Histogram& Took(RpcMethod method) const { return Of(method).took; }

 private:
  static constexpr size_t kUnknownCode = 2;
  // On cache lines of its own: methods are counted by different threads at once.
  struct alignas(64) OneMethod {
    std::atomic<uint64_t> started{0};
    std::array<std::atomic<uint64_t>, kRpcCodes> handled{};
    Histogram took{kSeconds};
  };
  OneMethod& Of(RpcMethod method) { return methods_[static_cast<size_t>(method)]; }
  const OneMethod& Of(RpcMethod method) const { return methods_[static_cast<size_t>(method)]; }

  std::array<OneMethod, kRpcMethods> methods_;
};

}  // namespace idempotency
