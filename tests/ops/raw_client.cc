#include "tests/ops/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

int Connect(int port) {
  const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  IDEM_CHECK(connected >= 0) << "no socket";
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  IDEM_CHECK(connect(connected, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0)
      << "cannot connect to port " << port;
  const timeval limit = {30, 0};
  setsockopt(connected, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(connected, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return connected;
}

}  // namespace

RawClient::RawClient(int port) : socket_(Connect(port)) {}

RawClient::~RawClient() { close(socket_); }

bool RawClient::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void RawClient::EndSending() { shutdown(socket_, SHUT_WR); }

std::string RawClient::ReadToEnd() {
  std::string all;
  char bytes[4096];
  for (;;) {
    const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return all;
    all.append(bytes, static_cast<size_t>(got));
  }
}

bool RawClient::IsReadable() const {
  pollfd polled = {socket_, POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

HttpReply ParseReply(const std::string& bytes) {
  HttpReply reply;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos || bytes.compare(0, 9, "HTTP/1.1 ") != 0) return reply;
  if (!absl::SimpleAtoi(bytes.substr(9, 3), &reply.status)) reply.status = 0;
  reply.head = bytes.substr(0, end + 2);
  reply.body = bytes.substr(end + 4);
  return reply;
}

HttpReply Exchange(int port, absl::string_view request) {
  RawClient client(port);
  client.Send(request);
  return ParseReply(client.ReadToEnd());
}

HttpReply Get(int port, absl::string_view target) {
  return Exchange(port, absl::StrCat("GET ", target, " HTTP/1.1\r\nHost: ops\r\n\r\n"));
}

}  // namespace idempotency
