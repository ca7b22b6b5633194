#include "server/ops/http_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "server/base/clock.h"
#include "server/base/status_macros.h"
#include "server/ops/http_head.h"

namespace idempotency {
namespace {

// While a head is read: how often to look whether others wait.
constexpr absl::Duration kLook = absl::Milliseconds(25);
// After the answer: what a client may still be sending is read and thrown away for so long and so
// much, because closing on unread bytes would reset the connection and take the answer with it.
constexpr absl::Duration kLinger = absl::Seconds(1);
constexpr size_t kMaxLingerBytes = 1 << 20;

absl::string_view ReasonPhrase(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

// An answer to what never came as far as a page.
std::string Refusal(int status, bool is_head) {
  const std::string body = absl::StrCat(status, " ", ReasonPhrase(status), "\n");
  return absl::StrCat("HTTP/1.1 ", status, " ", ReasonPhrase(status),
                      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ",
                      body.size(), status == 405 ? "\r\nAllow: GET, HEAD" : "",
                      "\r\nConnection: close\r\n\r\n", is_head ? "" : body);
}

// Waits until the socket is ready or the time is over. Whether it is ready, or has failed.
bool Await(int socket, int16_t events, absl::Duration at_most) {
  pollfd polled = {socket, events, 0};
  const auto millis =
      static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(at_most, absl::Milliseconds(1))));
  return poll(&polled, 1, std::max(millis, 0)) > 0;
}

bool IsTryAgain() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Sends all of it, or as much as the peer takes in time.
void Send(int socket, absl::string_view bytes, absl::Duration timeout) {
  const absl::Duration deadline = SystemClock()->BootTime() + timeout;
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (!IsTryAgain()) {
      return;
    }
    const absl::Duration left = deadline - SystemClock()->BootTime();
    if (left <= absl::ZeroDuration()) return;
    if (!bytes.empty()) Await(socket, POLLOUT, left);
  }
}

void Linger(int socket, TcpListener& listener) {
  shutdown(socket, SHUT_WR);
  const absl::Duration deadline = SystemClock()->BootTime() + kLinger;
  char thrown_away[4096];
  size_t read = 0;
  while (read < kMaxLingerBytes && !listener.OthersWait()) {
    const ssize_t got = recv(socket, thrown_away, sizeof thrown_away, 0);
    if (got == 0 || (got < 0 && !IsTryAgain())) return;
    if (got > 0) read += static_cast<size_t>(got);
    const absl::Duration left = deadline - SystemClock()->BootTime();
    if (left <= absl::ZeroDuration()) return;
    if (got < 0) Await(socket, POLLIN, std::min(left, kLook));
  }
}

// How reading a head ended.
enum class HeadRead { kWhole, kLate, kGone };

HeadRead ReadHead(int socket, TcpListener& listener, HttpHead* head) {
  const absl::Duration start = SystemClock()->BootTime();
  while (head->state() == HttpHead::State::kIncomplete) {
    char bytes[2048];
    const ssize_t got = recv(socket, bytes, sizeof bytes, 0);
    if (got > 0) {
      head->Add({bytes, static_cast<size_t>(got)});
      continue;
    }
    if (got == 0 || !IsTryAgain()) return HeadRead::kGone;
    const absl::Duration took = SystemClock()->BootTime() - start;
    if (took >= HttpServer::kReadTimeout) return HeadRead::kLate;
    if (took >= HttpServer::kReadTimeoutInCrowd && listener.OthersWait()) return HeadRead::kLate;
    Await(socket, POLLIN, kLook);
  }
  return HeadRead::kWhole;
}

// A request line in, an answer out: all that httplib gets to see.
class TextStream final : public httplib::Stream {
 public:
  explicit TextStream(const std::string& request_line)
      : in_(absl::StrCat(request_line, "\r\n\r\n")) {}

  std::string TakeAnswer() { return std::move(out_); }

  bool is_readable() const override { return read_ < in_.size(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const size_t count = std::min(size, in_.size() - read_);
    std::copy_n(in_.data() + read_, count, to);
    read_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) override {
    out_.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  // No descriptor: httplib compares it with what select() can take.
  socket_t socket() const override { return -1; }

 private:
  const std::string in_;
  size_t read_ = 0;
  std::string out_;
};

class Query final : public HttpQuery {
 public:
  explicit Query(const httplib::Request& request) : request_(request) {}
  bool Has(const std::string& name) const override { return request_.has_param(name); }

 private:
  const httplib::Request& request_;
};

}  // namespace

// Never listens: it parses request lines and writes answers. Thread-safe once made.
class HttpServer::Router : private httplib::Server {
 public:
  explicit Router(HttpPages pages) : pages_(std::move(pages)) {
    set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
    // Before httplib's own routing, which matches regular expressions.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const auto page = pages_.find(request.path);
      const HttpAnswer answer = page == pages_.end()
                                    ? HttpAnswer{.status = 404, .body = "404 Not Found\n"}
                                    : page->second(Query(request));
      response.status = answer.status;
      response.set_content(answer.body, answer.content_type);
      return HandlerResponse::Handled;
    });
  }

  // Empty when the request line is none.
  std::string Answer(const std::string& request_line) {
    TextStream stream(request_line);
    bool is_closed = false;
    process_request(stream, /*close_connection=*/true, is_closed, nullptr);
    return stream.TakeAnswer();
  }

 private:
  const HttpPages pages_;
};

HttpServer::HttpServer(HttpPages pages, Metrics* metrics)
    : metrics_(metrics), router_(std::make_unique<Router>(std::move(pages))) {}

HttpServer::~HttpServer() {
  if (listener_ != nullptr) Stop();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              HttpPages pages, Metrics* metrics) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(pages), metrics));
  TcpListenerOptions options;
  options.address = address;
  options.threads = kThreads;
  options.max_waiting = kMaxWaiting;
  HttpServer* const self = server.get();
  const auto serve = [self](int socket, TcpListener& listener) { self->Serve(socket, listener); };
  const auto refuse = [](int socket, TcpListener&) {
    Send(socket, Refusal(503, false), absl::ZeroDuration());
  };
  ASSIGN_OR_RETURN(server->listener_, TcpListener::Start(options, serve, refuse, metrics));
  return server;
}

void HttpServer::Serve(int socket, TcpListener& listener) {
  HttpHead head;
  const HeadRead ended = ReadHead(socket, listener, &head);
  if (ended == HeadRead::kGone) return;
  std::string answer;
  if (ended == HeadRead::kLate) {
    metrics_->Add(Metric::kOpsLate);
    answer = Refusal(408, head.is_head());
  } else if (head.state() == HttpHead::State::kRefused) {
    metrics_->Add(Metric::kOpsBadRequests);
    answer = Refusal(head.status(), head.is_head());
  } else {
    metrics_->Add(Metric::kOpsRequests);
    answer = router_->Answer(head.request_line());
    if (answer.empty()) answer = Refusal(400, head.is_head());
  }
  Send(socket, answer, kWriteTimeout);
  Linger(socket, listener);
}

}  // namespace idempotency
