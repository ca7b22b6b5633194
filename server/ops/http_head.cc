#include "server/ops/http_head.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/base/check.h"

namespace idempotency {
namespace {

// RFC 9110, section 5.6.2.
bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos;
}

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}

bool IsVisible(char c) { return c > ' ' && c < 0x7F; }

// Visible characters, blanks and tabs, and what lies beyond ASCII.
bool IsHeaderValue(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return IsVisible(c) || c == ' ' || c == '\t' || (static_cast<unsigned char>(c) & 0x80) != 0;
  });
}

}  // namespace

HttpHead::State HttpHead::Refuse(int status) {
  status_ = status;
  return state_ = State::kRefused;
}

HttpHead::State HttpHead::Add(absl::string_view bytes) {
  IDEM_CHECK(state_ == State::kIncomplete) << "the head has ended";
  for (const char c : bytes) {
    ++bytes_;
    if (bytes_ > kMaxBytes) return Refuse(431);
    if (c != '\n') {
      line_ += c;
      // With the carriage return of its end.
      if (request_line_.empty() && line_.size() > kMaxRequestLineBytes + 1) return Refuse(414);
      continue;
    }
    if (!absl::EndsWith(line_, "\r")) return Refuse(400);
    line_.pop_back();
    if (request_line_.empty()) {
      if (!TakeRequestLine(line_)) return state_;
    } else if (line_.empty()) {
      return state_ = State::kComplete;
    } else if (!TakeHeader(line_)) {
      return state_;
    }
    line_.clear();
  }
  return state_;
}

// METHOD SP target SP HTTP/1.x
bool HttpHead::TakeRequestLine(absl::string_view line) {
  if (line.size() > kMaxRequestLineBytes) {
    Refuse(414);
    return false;
  }
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == absl::string_view::npos || first == last) {
    Refuse(400);
    return false;
  }
  const absl::string_view method = line.substr(0, first);
  const absl::string_view target = line.substr(first + 1, last - first - 1);
  const absl::string_view version = line.substr(last + 1);
  const bool is_right = IsToken(method) && absl::StartsWith(target, "/") &&
                        std::all_of(target.begin(), target.end(), IsVisible) &&
                        (version == "HTTP/1.1" || version == "HTTP/1.0");
  if (!is_right) {
    Refuse(400);
    return false;
  }
  is_head_ = method == "HEAD";
  if (method != "GET" && !is_head_) {
    Refuse(405);
    return false;
  }
  request_line_ = std::string(line);
  return true;
}

bool HttpHead::TakeHeader(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon)) ||
      !IsHeaderValue(line.substr(colon + 1))) {
    Refuse(400);
    return false;
  }
  if (++headers_ > kMaxHeaders) {
    Refuse(431);
    return false;
  }
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  const bool has_body = absl::EqualsIgnoreCase(name, "Transfer-Encoding") ||
                        (absl::EqualsIgnoreCase(name, "Content-Length") && value != "0");
  if (has_body) Refuse(413);
  return !has_body;
}

}  // namespace idempotency
