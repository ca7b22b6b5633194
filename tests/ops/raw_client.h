// A TCP connection to a port of this machine, byte by byte: what a well-behaved HTTP client would
// never send, this one does.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace idempotency {

// Not thread-safe. Every wait ends after half a minute.
class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // As much as the peer takes before it closes. Whether that was all.
  bool Send(absl::string_view bytes);
  // Says that nothing more will come.
  void EndSending();
  // Everything until the peer closes.
  std::string ReadToEnd();
  // Whether the peer has closed, or sent something; does not wait.
  bool IsReadable() const;

 private:
  const int socket_;
};

struct HttpReply {
  int status = 0;  // 0: no HTTP answer came
  std::string head;
  std::string body;
};

HttpReply ParseReply(const std::string& bytes);
// Sends these bytes on a connection of their own and reads the answer.
HttpReply Exchange(int port, absl::string_view request);
// GET of a target such as /readyz?verbose.
HttpReply Get(int port, absl::string_view target);

}  // namespace idempotency
