// The head of an HTTP/1 request (request line and headers), taken in as its bytes arrive and held
// against the limits of the operations port.
//
// The port answers GET and HEAD and needs nothing that stands in a header, so this is strict where
// a general server is lenient: what is not plainly right is refused before anything parses it. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace idempotency {

class HttpHead {
 public:
  static constexpr size_t kMaxRequestLineBytes = 1024;
  // Request line, headers and all line ends together.
  static constexpr size_t kMaxBytes = 8192;
  static constexpr size_t kMaxHeaders = 64;

  // kIncomplete: more is to come. Everything else is final.
  enum class State { kIncomplete, kComplete, kRefused };

  // Bytes after the head are ignored. REQUIRES: state() is kIncomplete.
  State Add(absl::string_view bytes);

  State state() const { return state_; }
  // The status to refuse with: 400 malformed, 405 neither GET nor HEAD, 413 announces a body, 414
  // request line too long, 431 too many or too large headers. REQUIRES: kRefused.
  int status() const { return status_; }
  // Whether the answer goes without its body. Valid once the request line is in.
  bool is_head() const { return is_head_; }
  // Without its line end. REQUIRES: kComplete.
  const std::string& request_line() const { return request_line_; }
  // Whether anything has come.
  bool is_empty() const { return bytes_ == 0; }

 private:
  State Refuse(int status);
  // Each takes a line without its end. False: refused.
  bool TakeRequestLine(absl::string_view line);
  bool TakeHeader(absl::string_view line);

  State state_ = State::kIncomplete;
  int status_ = 0;
  bool is_head_ = false;
  size_t bytes_ = 0;
  size_t headers_ = 0;
  std::string request_line_;
  std::string line_;  // the one that is not ended yet
};

}  // namespace idempotency
