#include "server/ops/http_head.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using State = HttpHead::State;

// 0: complete; otherwise the status of the refusal; -1: incomplete.
int Read(const std::string& bytes) {
  HttpHead head;
  switch (head.Add(bytes)) {
    case State::kComplete:
      return 0;
    case State::kRefused:
      return head.status();
    case State::kIncomplete:
      break;
  }
  return -1;
}

int ReadHeader(const std::string& header) {
  return Read(absl::StrCat("GET / HTTP/1.1\r\n", header, "\r\n\r\n"));
}

TEST(HttpHead, TakesARequest) {
  HttpHead head;
  EXPECT_EQ(head.Add("GET /readyz?verbose HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"),
            State::kComplete);
  EXPECT_EQ(head.request_line(), "GET /readyz?verbose HTTP/1.1");
  EXPECT_FALSE(head.is_head());
}

TEST(HttpHead, TakesARequestByteByByte) {
  HttpHead head;
  const std::string request = "HEAD / HTTP/1.0\r\nA: b\r\n\r\n";
  for (size_t i = 0; i + 1 < request.size(); ++i) {
    ASSERT_EQ(head.Add(request.substr(i, 1)), State::kIncomplete) << i;
  }
  EXPECT_EQ(head.Add("\n"), State::kComplete);
  EXPECT_TRUE(head.is_head());
}

TEST(HttpHead, IgnoresWhatFollowsTheHead) {
  EXPECT_EQ(Read("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n"), 0);
}

TEST(HttpHead, RefusesWhatIsNoRequestLine) {
  for (const char* const line :
       {"", "GET", "GET /", "GET  HTTP/1.1", "/ GET HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.2",
        "GET / http/1.1", "GET a HTTP/1.1", "GET http://a/ HTTP/1.1", "GET /a b HTTP/1.1",
        " GET / HTTP/1.1", "G(T / HTTP/1.1", "GET /\x7f HTTP/1.1", "GET /\xc3\xa9 HTTP/1.1",
        "\x16\x03\x01", "PRI * HTTP/2.0"}) {
    EXPECT_EQ(Read(absl::StrCat(line, "\r\n")), 400) << line;
  }
}

TEST(HttpHead, RefusesOtherMethods) {
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", "X"}) {
    EXPECT_EQ(Read(absl::StrCat(method, " / HTTP/1.1\r\n")), 405) << method;
  }
}

TEST(HttpHead, RefusesLinesThatDoNotEndInBoth) {
  EXPECT_EQ(Read("GET / HTTP/1.1\n"), 400);
  EXPECT_EQ(Read("GET / HTTP/1.1\r\nA: b\n"), 400);
}

TEST(HttpHead, RefusesNul) {
  EXPECT_EQ(Read(std::string("GET /\0 HTTP/1.1\r\n", 17)), 400);
  EXPECT_EQ(ReadHeader(std::string("A: b\0c", 6)), 400);
}

TEST(HttpHead, RefusesWhatIsNoHeader) {
  for (const char* const header :
       {"A", ": b", "A : b", " A: b", "\tA: b", "A\r: b", "A: b\rc", "A: \x01", "\xc3: b"}) {
    EXPECT_EQ(ReadHeader(header), 400) << header;
  }
}

TEST(HttpHead, TakesEmptyAndUnusualHeaderValues) {
  for (const char* const header : {"A:", "A: ", "A:b", "A:\tb", "A: \xc3\xa9", "a!#$: b"}) {
    EXPECT_EQ(ReadHeader(header), 0) << header;
  }
}

TEST(HttpHead, RefusesABody) {
  EXPECT_EQ(ReadHeader("Content-Length: 1"), 413);
  EXPECT_EQ(ReadHeader("content-length: 18446744073709551616"), 413);
  EXPECT_EQ(ReadHeader("Content-Length: x"), 413);
  EXPECT_EQ(ReadHeader("Transfer-Encoding: chunked"), 413);
  EXPECT_EQ(ReadHeader("Content-Length: 0"), 0);
}

TEST(HttpHead, BoundsTheRequestLine) {
  const std::string rest = " HTTP/1.1";
  const auto line = [&](size_t size) {
    return absl::StrCat("GET /", std::string(size - 5 - rest.size(), 'a'), rest);
  };
  EXPECT_EQ(Read(line(HttpHead::kMaxRequestLineBytes) + "\r\n\r\n"), 0);
  EXPECT_EQ(Read(line(HttpHead::kMaxRequestLineBytes + 1) + "\r\n\r\n"), 414);
}

TEST(HttpHead, RefusesARequestLineThatNeverEnds) {
  HttpHead head;
  size_t sent = 0;
  while (head.state() == State::kIncomplete && sent < 10 * HttpHead::kMaxBytes) {
    head.Add("a");
    ++sent;
  }
  EXPECT_EQ(head.status(), 414);
  EXPECT_LE(sent, HttpHead::kMaxRequestLineBytes + 2);
}

TEST(HttpHead, BoundsTheNumberOfHeaders) {
  const auto request = [](size_t count) {
    std::string text = "GET / HTTP/1.1\r\n";
    for (size_t i = 0; i < count; ++i) text += "A: b\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(Read(request(HttpHead::kMaxHeaders)), 0);
  EXPECT_EQ(Read(request(HttpHead::kMaxHeaders + 1)), 431);
}

TEST(HttpHead, BoundsAllBytesTogether) {
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  const auto request = [&](size_t size) {
    return absl::StrCat(start, std::string(size - start.size() - 4, 'a'), "\r\n\r\n");
  };
  EXPECT_EQ(Read(request(HttpHead::kMaxBytes)), 0);
  EXPECT_EQ(Read(request(HttpHead::kMaxBytes + 1)), 431);
}

}  // namespace
}  // namespace idempotency
