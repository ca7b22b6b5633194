// Accepts TCP connections and lets a few threads serve them, one at a time each: bounded in
// threads, in connections that wait for one, and in the time that its end takes.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "server/base/metrics.h"
#include "server/base/mutex.h"

namespace idempotency {

struct TcpListenerOptions {
  // host:port; port 0 is a free one. The host may be a name or an address, IPv6 in brackets.
  std::string address;
  size_t threads = 4;
  // Connections that wait for a thread; one more is handed to `refuse`.
  size_t max_waiting = 64;
};

// Start, Stop and the destructor are for one thread.
class TcpListener {
 public:
  // What is done with a connection, a non-blocking socket that is closed afterwards. Once the
  // listener stops, the socket reports its end, so that nothing which waits for it goes on waiting.
  using Serve = std::function<void(int socket, TcpListener& listener)>;

  // `serve` runs on the listener's threads, `refuse` on the one that accepts and must not wait.
  // `metrics` must outlive this. kInvalidArgument when the address is malformed, kUnavailable when
  // it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Start(const TcpListenerOptions& options,
                                                            Serve serve, Serve refuse,
                                                            Metrics* metrics);
  // As Stop.
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  // host:port with the port that is really listened on.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Whether connections wait for a thread: then those that are slow should make room. Thread-safe.
  bool OthersWait();

  // Accepts no more, ends every connection and returns when all threads have. Idempotent.
  void Stop();

 private:
  TcpListener(const TcpListenerOptions& options, int listening, std::string address, int port,
              Serve serve, Serve refuse, Metrics* metrics);
  void AcceptLoop();
  void Accept(int socket);
  void ServeLoop();

  const size_t max_waiting_;
  const int listening_;
  const int wake_;  // an eventfd: readable once Stop was called
  const std::string address_;
  const int port_;
  const Serve serve_;
  const Serve refuse_;
  Metrics* const metrics_;

  Mutex mu_;
  CondVar changed_;
  std::deque<int> waiting_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<int> served_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;

  std::thread accepting_;
  std::vector<std::thread> serving_;
};

}  // namespace idempotency
