// The HTTP/1 server of the operations port: GET and HEAD of a few fixed paths, one request a
// connection.
//
// For machines of the same network that mostly mean well, and robust against those that do not. A
// request's head has 8 KiB and 5 s; one that is slow has 100 ms once others wait for its thread, so
// that connections which say nothing cannot keep probes out. No body is read, nothing is
// compressed, and what a header says changes nothing. Built on cpp-httplib, whose header only
// http_server.cc includes: it parses the request line and writes answers, but never sees a socket
// or a header, because its own limits bound neither time nor memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/metrics.h"
#include "server/ops/tcp_listener.h"

namespace idempotency {

// What follows the ? of a request's target.
class HttpQuery {
 public:
  virtual ~HttpQuery() = default;
  virtual bool Has(const std::string& name) const = 0;
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Called from several threads at once; must not wait.
using HttpPage = std::function<HttpAnswer(const HttpQuery& query)>;
// By path. A path without a page is answered 404.
using HttpPages = std::map<std::string, HttpPage>;

// Start, Stop and the destructor are for one thread.
class HttpServer {
 public:
  // At most this many connections are served, and wait to be served, at once. One more is answered
  // 503 at once.
  static constexpr size_t kThreads = 8;
  static constexpr size_t kMaxWaiting = 64;
  // For a request's head, and for taking its answer.
  static constexpr absl::Duration kReadTimeout = absl::Seconds(5);
  static constexpr absl::Duration kWriteTimeout = absl::Seconds(5);
  // For a head while other connections wait: 72 of them are gone within a probe's usual second.
  static constexpr absl::Duration kReadTimeoutInCrowd = absl::Milliseconds(100);

  // Listens on `address`, host:port. `metrics` must outlive this. Statuses as TcpListener::Start's.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                           HttpPages pages, Metrics* metrics);
  // As Stop.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const { return listener_->address(); }
  int port() const { return listener_->port(); }

  // Ends every connection and returns when no page runs any more. Idempotent.
  void Stop() { listener_->Stop(); }

 private:
  class Router;
  HttpServer(HttpPages pages, Metrics* metrics);
  void Serve(int socket, TcpListener& listener);

  Metrics* const metrics_;
  const std::unique_ptr<Router> router_;
  std::unique_ptr<TcpListener> listener_;
};

}  // namespace idempotency
