#include "server/app/loopback_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"

namespace idempotency {
namespace {

// 30000 and above are Kubernetes' node ports.
constexpr int kLowest = 15000;
constexpr int kHighest = 29999;

// Returns the port listened on, 0 asking for any; or nothing.
std::optional<int> TryListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  // As servers do: connections of the previous one that are still in TIME_WAIT do not count.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, generic, size) != 0 || listen(fd, 1) != 0 || getsockname(fd, generic, &size) != 0) {
    return std::nullopt;
  }
  return ntohs(address.sin_port);
}

int LowestOutgoingPort() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int lowest = 0;
  return file >> lowest ? lowest : 32768;
}

}  // namespace

bool CanListen(int port) { return port > 0 && port <= 65535 && TryListen(port).has_value(); }

absl::StatusOr<int> ChooseLoopbackPort(std::optional<int> preferred) {
  if (preferred.has_value() && CanListen(*preferred)) return *preferred;
  const int highest = std::min(kHighest, LowestOutgoingPort() - 1);
  if (highest > kLowest) {
    std::random_device random;
    std::uniform_int_distribution<int> any(kLowest, highest);
    for (int attempt = 0; attempt < 100; ++attempt) {
      const int port = any(random);
      if (CanListen(port)) return port;
    }
  }
  const std::optional<int> port = TryListen(0);
  if (!port.has_value()) return absl::ResourceExhaustedError("no free port on 127.0.0.1");
  return *port;
}

}  // namespace idempotency
