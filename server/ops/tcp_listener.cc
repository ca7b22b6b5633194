#include "server/ops/tcp_listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/check.h"
#include "server/base/status_macros.h"

namespace idempotency {
namespace {

// Connections that the kernel holds until they are accepted.
constexpr int kBacklog = 64;
// After accepting failed for want of descriptors or memory: until others may have given some back.
constexpr int kPauseMillis = 100;

struct HostAndPort {
  std::string host;  // as given, brackets included
  int port = 0;
};

absl::StatusOr<HostAndPort> Parse(absl::string_view address) {
  const size_t colon = address.rfind(':');
  HostAndPort parsed;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &parsed.port) || parsed.port < 0 ||
      parsed.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("an address is host:port, such as 127.0.0.1:9464; this is not: ", address));
  }
  parsed.host = std::string(address.substr(0, colon));
  return parsed;
}

absl::Status CannotListen(absl::string_view address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

// A listening socket on the first of the host's addresses that takes one.
absl::StatusOr<int> Listen(absl::string_view address, const HostAndPort& parsed) {
  std::string host = parsed.host;
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), absl::StrCat(parsed.port).c_str(), &hints, &found);
  if (failed != 0) return CannotListen(address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int listening =
        socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    // For a restart while old connections linger. Not SO_REUSEPORT: a second server on the same
    // port would share it in silence.
    const int on = 1;
    const int off = 0;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // [::] means every address, IPv4's included.
    if (one->ai_family == AF_INET6) {
      setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (listening >= 0 && bind(listening, one->ai_addr, one->ai_addrlen) == 0 &&
        listen(listening, kBacklog) == 0) {
      return listening;
    }
    error = errno;
    if (listening >= 0) close(listening);
  }
  return CannotListen(address, strerror(error));
}

int PortOf(int listening) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Start(const TcpListenerOptions& options,
                                                                Serve serve, Serve refuse,
                                                                Metrics* metrics) {
  ASSIGN_OR_RETURN(const HostAndPort parsed, Parse(options.address));
  ASSIGN_OR_RETURN(const int listening, Listen(options.address, parsed));
  const int port = PortOf(listening);
  return std::unique_ptr<TcpListener>(
      new TcpListener(options, listening, absl::StrCat(parsed.host, ":", port), port,
                      std::move(serve), std::move(refuse), metrics));
}

TcpListener::TcpListener(const TcpListenerOptions& options, int listening, std::string address,
                         int port, Serve serve, Serve refuse, Metrics* metrics)
    : max_waiting_(options.max_waiting),
      listening_(listening),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      address_(std::move(address)),
      port_(port),
      serve_(std::move(serve)),
      refuse_(std::move(refuse)),
      metrics_(metrics) {
  IDEM_CHECK(wake_ >= 0) << "no eventfd";
  IDEM_CHECK(options.threads > 0) << "nobody would serve";
  accepting_ = std::thread([this] { AcceptLoop(); });
  for (size_t i = 0; i < options.threads; ++i) {
    serving_.emplace_back([this] { ServeLoop(); });
  }
}

TcpListener::~TcpListener() {
  Stop();
  close(wake_);
}

bool TcpListener::OthersWait() {
  MutexLock lock(&mu_);
  return !waiting_.empty();
}

void TcpListener::Stop() {
  {
    MutexLock lock(&mu_);
    if (stopped_) return;
    stopped_ = true;
    for (const int socket : waiting_) close(socket);
    metrics_->Add(Metric::kOpsConnections, -static_cast<int64_t>(waiting_.size()));
    waiting_.clear();
    // Under the lock: none of these is closed, and its number used again, meanwhile.
    for (const int socket : served_) shutdown(socket, SHUT_RDWR);
  }
  changed_.NotifyAll();
  const uint64_t one = 1;
  IDEM_CHECK(write(wake_, &one, sizeof one) == sizeof one) << "an eventfd took no write";
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  close(listening_);
}

void TcpListener::AcceptLoop() {
  pollfd polled[] = {{wake_, POLLIN, 0}, {listening_, POLLIN, 0}};
  for (;;) {
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents != 0) return;
    const int socket = accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      Accept(socket);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      poll(polled, 1, kPauseMillis);
    }
    // Any other failure is that connection's own.
  }
}

void TcpListener::Accept(int socket) {
  bool is_taken = false;
  {
    MutexLock lock(&mu_);
    is_taken = !stopped_ && waiting_.size() < max_waiting_;
    if (is_taken) {
      waiting_.push_back(socket);
      metrics_->Add(Metric::kOpsConnections);
    }
  }
  if (is_taken) {
    changed_.NotifyOne();
    return;
  }
  metrics_->Add(Metric::kOpsRefused);
  refuse_(socket, *this);
  close(socket);
}

void TcpListener::ServeLoop() {
  for (;;) {
    int socket = -1;
    {
      MutexLock lock(&mu_);
      while (waiting_.empty() && !stopped_) changed_.Wait(&mu_);
      if (stopped_) return;
      socket = waiting_.front();
      waiting_.pop_front();
      served_.insert(socket);
    }
    serve_(socket, *this);
    {
      MutexLock lock(&mu_);
      served_.erase(socket);
      close(socket);
      metrics_->Add(Metric::kOpsConnections, -1);
    }
  }
}

}  // namespace idempotency
