// The operations port's HTTP server on a real socket, against clients that mean well and clients
// that do not.
#include "server/ops/http_server.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ops/http_head.h"
#include "tests/ops/raw_client.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

using testing::HasSubstr;
using testing::Not;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    HttpPages pages;
    pages["/a"] = [](const HttpQuery& query) {
      return HttpAnswer{200, "text/plain; charset=utf-8", query.Has("x") ? "with x" : "plain"};
    };
    pages["/large"] = [](const HttpQuery&) {
      return HttpAnswer{200, "text/plain; charset=utf-8", std::string(4 << 20, 'l')};
    };
    pages["/unwell"] = [](const HttpQuery&) { return HttpAnswer{503, "text/plain", "unwell"}; };
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Start("127.0.0.1:0", std::move(pages), &metrics_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }
  HttpReply GetA() { return Get(port(), "/a"); }
  // The server does its work.
  void ExpectUnharmed() { EXPECT_EQ(GetA().body, "plain"); }
  int64_t Count(Metric metric) const { return metrics_.Value(metric); }

  Metrics metrics_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAPage) {
  const HttpReply reply = GetA();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "plain");
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_THAT(reply.head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(reply.head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(reply.head, HasSubstr("Cache-Control: no-store\r\n"));
}

TEST_F(HttpServerTest, PageGetsTheQuery) {
  EXPECT_EQ(Get(port(), "/a?x").body, "with x");
  EXPECT_EQ(Get(port(), "/a?x=1&y=2").body, "with x");
  EXPECT_EQ(Get(port(), "/a?y").body, "plain");
}

TEST_F(HttpServerTest, HeadIsTheAnswerWithoutItsBody) {
  const HttpReply reply = Exchange(port(), "HEAD /a HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_EQ(reply.body, "");
}

TEST_F(HttpServerTest, PageChoosesItsStatus) {
  const HttpReply reply = Get(port(), "/unwell");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "unwell");
}

TEST_F(HttpServerTest, UnknownPathIsNotFound) {
  for (const char* const path : {"/", "/b", "/a/", "//a", "/A", "/%00", "/../a", "/a%2e"}) {
    EXPECT_EQ(Get(port(), path).status, 404) << path;
  }
}

TEST_F(HttpServerTest, OtherMethodsAreRefusedAndToldWhatIsAllowed) {
  for (const char* const method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"}) {
    const HttpReply reply = Exchange(port(), absl::StrCat(method, " /a HTTP/1.1\r\n\r\n"));
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_THAT(reply.head, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  ExpectUnharmed();
}

TEST_F(HttpServerTest, BodyIsRefusedUnread) {
  EXPECT_EQ(Exchange(port(), "GET /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\nabc").status, 413);
  EXPECT_EQ(Exchange(port(), "GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").status, 413);
  ExpectUnharmed();
}

TEST_F(HttpServerTest, GarbageIsRefused) {
  std::string garbage;
  for (int i = 0; i < 4096; ++i) garbage += static_cast<char>(i * 37 + 11);
  EXPECT_EQ(Exchange(port(), garbage + "\r\n\r\n").status, 400);
  // A TLS client, and an HTTP/2 one: 0x0A in the first ends a line.
  EXPECT_EQ(Exchange(port(), absl::string_view("\x16\x03\x01\x00\x05\x01\x00\x0a\x0a", 9)).status,
            400);
  EXPECT_EQ(Exchange(port(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 400);
  EXPECT_GE(Count(Metric::kOpsBadRequests), 3);
  ExpectUnharmed();
}

TEST_F(HttpServerTest, HugeHeadIsRefusedAndItsAnswerArrives) {
  RawClient client(port());
  EXPECT_TRUE(client.Send("GET /a HTTP/1.1\r\nA: "));
  client.Send(std::string(512 << 10, 'a'));
  EXPECT_EQ(ParseReply(client.ReadToEnd()).status, 431);
  RawClient second(port());
  second.Send(absl::StrCat("GET /", std::string(64 << 10, 'a'), " HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(ParseReply(second.ReadToEnd()).status, 414);
  ExpectUnharmed();
}

// cpp-httplib alone parses this with a regular expression that recurses, then with std::stoll.
TEST_F(HttpServerTest, HeadersChangeNothing) {
  std::string ranges = "bytes=0-1";
  while (ranges.size() < 4000) ranges += ",0-99999999999999999999999";
  const HttpReply reply =
      Exchange(port(), absl::StrCat("GET /a HTTP/1.1\r\nRange: ", ranges,
                                    "\r\nAccept-Encoding: gzip, br\r\nExpect: 100-continue\r\n"
                                    "Connection: keep-alive\r\n\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "plain");
  EXPECT_THAT(reply.head, Not(HasSubstr("Content-Encoding")));
}

TEST_F(HttpServerTest, OneRequestAConnection) {
  RawClient client(port());
  client.Send("GET /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
  EXPECT_EQ(ParseReply(client.ReadToEnd()).body, "plain");
  EXPECT_EQ(Count(Metric::kOpsRequests), 1);
}

TEST_F(HttpServerTest, RequestInPiecesIsAnswered) {
  RawClient client(port());
  for (const char c : absl::string_view("GET /a HTTP/1.1\r\n\r\n")) {
    EXPECT_TRUE(client.Send(absl::string_view(&c, 1)));
  }
  EXPECT_EQ(ParseReply(client.ReadToEnd()).body, "plain");
}

TEST_F(HttpServerTest, ClientThatEndsSendingAfterItsRequestIsAnswered) {
  RawClient client(port());
  client.Send("GET /a HTTP/1.1\r\n\r\n");
  client.EndSending();
  EXPECT_EQ(ParseReply(client.ReadToEnd()).body, "plain");
}

TEST_F(HttpServerTest, ClientThatLeavesInTheMiddleIsForgotten) {
  {
    RawClient client(port());
    client.Send("GET /a HT");
  }
  { RawClient client(port()); }
  EXPECT_TRUE(Eventually([&] { return Count(Metric::kOpsConnections) == 0; }));
  ExpectUnharmed();
}

TEST_F(HttpServerTest, SlowRequestIsCutOffWithItsStatus) {
  RawClient client(port());
  client.Send("GET /a HTTP/1.1\r\nHost:");
  EXPECT_EQ(ParseReply(client.ReadToEnd()).status, 408);
  EXPECT_EQ(Count(Metric::kOpsLate), 1);
}

TEST_F(HttpServerTest, SilentConnectionsDoNotKeepOthersOut) {
  std::vector<std::unique_ptr<RawClient>> silent;
  // More than the threads, and no more than may wait beside the next one if no thread has come to
  // take any of them yet.
  constexpr size_t kSilent = HttpServer::kMaxWaiting - 1;
  static_assert(kSilent > HttpServer::kThreads);
  for (size_t i = 0; i < kSilent; ++i) {
    silent.push_back(std::make_unique<RawClient>(port()));
    if (i % 2 == 0) silent.back()->Send("GET /a HTTP/1.1\r\nA");
  }
  ExpectUnharmed();
}

TEST_F(HttpServerTest, ConnectionsBeyondTheBoundAreRefusedAtOnce) {
  // One page that does not return holds every thread, so that what waits is exact.
  std::atomic<bool> go_on{false};
  std::atomic<size_t> running{0};
  HttpPages pages;
  pages["/stuck"] = [&](const HttpQuery&) {
    ++running;
    (void)Eventually([&] { return go_on.load(); });
    return HttpAnswer{};
  };
  absl::StatusOr<std::unique_ptr<HttpServer>> stuck =
      HttpServer::Start("127.0.0.1:0", std::move(pages), &metrics_);
  ASSERT_TRUE(stuck.ok());
  const int at = (*stuck)->port();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < HttpServer::kThreads; ++i) {
    clients.push_back(std::make_unique<RawClient>(at));
    clients.back()->Send("GET /stuck HTTP/1.1\r\n\r\n");
  }
  ASSERT_TRUE(Eventually([&] { return running == HttpServer::kThreads; }));
  for (size_t i = 0; i < HttpServer::kMaxWaiting; ++i) {
    clients.push_back(std::make_unique<RawClient>(at));
    clients.back()->Send("GET /stuck HTTP/1.1\r\n\r\n");
  }
  const auto kAll = static_cast<int64_t>(HttpServer::kThreads + HttpServer::kMaxWaiting);
  ASSERT_TRUE(Eventually([&] { return Count(Metric::kOpsConnections) == kAll; }));
  EXPECT_EQ(Count(Metric::kOpsRefused), 0);
  RawClient one_more(at);
  EXPECT_EQ(ParseReply(one_more.ReadToEnd()).status, 503);
  EXPECT_EQ(Count(Metric::kOpsRefused), 1);
  go_on = true;
  for (const auto& client : clients) EXPECT_EQ(ParseReply(client->ReadToEnd()).status, 200);
  EXPECT_TRUE(Eventually([&] { return Count(Metric::kOpsConnections) == 0; }));
}

TEST_F(HttpServerTest, ClientThatDoesNotReadIsForgotten) {
  RawClient client(port());
  client.Send("GET /large HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return client.IsReadable(); }));
  ExpectUnharmed();
  EXPECT_TRUE(Eventually([&] { return Count(Metric::kOpsConnections) == 0; }));
}

TEST_F(HttpServerTest, ManyAtOnceAreAllAnswered) {
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        if (GetA().body == "plain") ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 200);
}

TEST_F(HttpServerTest, StopEndsConnectionsThatWaitForNothing) {
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(std::make_unique<RawClient>(port()));
  ASSERT_TRUE(Eventually([&] { return Count(Metric::kOpsConnections) > 0; }));
  server_->Stop();
  EXPECT_EQ(Count(Metric::kOpsConnections), 0);
  for (const auto& client : silent) client->ReadToEnd();
  server_->Stop();
}

TEST_F(HttpServerTest, PortIsFreeAfterTheEndAndTakenBefore) {
  const std::string address = server_->address();
  EXPECT_TRUE(absl::IsUnavailable(HttpServer::Start(address, {}, &metrics_).status()));
  ExpectUnharmed();
  server_.reset();
  EXPECT_TRUE(HttpServer::Start(address, {}, &metrics_).ok());
}

TEST_F(HttpServerTest, AddressThatIsNoneIsToldApartFromOneThatIsTaken) {
  for (const char* const address :
       {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "a:b", "127.0.0.1:65536", "127.0.0.1:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(HttpServer::Start(address, {}, &metrics_).status()))
        << address;
  }
  EXPECT_TRUE(
      absl::IsUnavailable(HttpServer::Start("no-such-host.invalid:0", {}, &metrics_).status()));
}

TEST_F(HttpServerTest, ListensOnNamesAndAllAddresses) {
  for (const char* const address : {"localhost:0", "0.0.0.0:0"}) {
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(address, {}, &metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_NE((*server)->port(), 0);
    EXPECT_TRUE(absl::EndsWith((*server)->address(), absl::StrCat(":", (*server)->port())));
  }
}

}  // namespace
}  // namespace idempotency
