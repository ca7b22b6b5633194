#include "server/store/postgres/nodes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "server/store/postgres/connection.h"

namespace idempotency {
namespace {

using Names = std::vector<std::string>;

ConnectParams ParamsOf(const std::string& conninfo) {
  ConnectionOptions options;
  options.conninfo = conninfo;
  absl::StatusOr<ConnectParams> params = ConnectParams::Make(options);
  IDEM_CHECK(params.ok()) << params.status();
  return *std::move(params);
}

Names NamesOf(const Nodes& nodes) {
  Names names;
  for (const Node& node : nodes.InOrder()) names.push_back(node.Name());
  return names;
}

// What an environment variable is set to while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

// A port of 127.0.0.1 where connections are made and nobody says a word.
class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    IDEM_CHECK(bind(socket_, any, length) == 0 && listen(socket_, 8) == 0 &&
               getsockname(socket_, any, &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

TEST(Nodes, AreOneForEachHostWithItsPort) {
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("host=127.0.0.1,127.0.0.2 port=1,2"))),
            Names({"127.0.0.1 port 1", "127.0.0.2 port 2"}));
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("postgres://127.0.0.1:1,127.0.0.2:2/db"))),
            Names({"127.0.0.1 port 1", "127.0.0.2 port 2"}));
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("host=127.0.0.1,/run port=3"))),
            Names({"127.0.0.1 port 3", "/run port 3"}));
}

TEST(Nodes, KeepANameBesideItsAddress) {
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("host=db.invalid hostaddr=127.0.0.9 port=1"))),
            Names({"db.invalid (127.0.0.9) port 1"}));
  // Not to be resolved: libpq's to say so.
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("host=db.invalid port=1"))), Names({"db.invalid port 1"}));
}

TEST(Nodes, ComeFromTheEnvironmentToo) {
  const Variable host("PGHOST", "127.0.0.1,127.0.0.2");
  const Variable port("PGPORT", "7");
  EXPECT_EQ(NamesOf(Nodes(ParamsOf("dbname=x"))), Names({"127.0.0.1 port 7", "127.0.0.2 port 7"}));
}

TEST(Nodes, ListsThatDoNotFitAreLeftToLibpq) {
  const Nodes nodes(ParamsOf("host=127.0.0.1,127.0.0.2,127.0.0.3 port=1,2"));
  ASSERT_EQ(nodes.InOrder().size(), 1u);
  std::string error;
  EXPECT_EQ(nodes.Connect(nodes.InOrder()[0], &error), nullptr);
  EXPECT_TRUE(absl::StrContains(error, "could not match")) << error;
}

TEST(Nodes, BeginWithTheOneThatWorked) {
  Nodes nodes(ParamsOf("host=127.0.0.1,127.0.0.2,127.0.0.3 port=1"));
  nodes.Prefer(nodes.InOrder()[1]);
  EXPECT_EQ(NamesOf(nodes), Names({"127.0.0.2 port 1", "127.0.0.3 port 1", "127.0.0.1 port 1"}));
}

TEST(Nodes, BeginAfterTheOneThatIsNoUse) {
  Nodes nodes(ParamsOf("host=127.0.0.1,127.0.0.2,127.0.0.3 port=1"));
  nodes.PassOver(nodes.InOrder()[0]);
  EXPECT_EQ(NamesOf(nodes), Names({"127.0.0.2 port 1", "127.0.0.3 port 1", "127.0.0.1 port 1"}));
  nodes.PassOver(nodes.InOrder()[1]);
  EXPECT_EQ(NamesOf(nodes)[0], "127.0.0.1 port 1");
}

TEST(Nodes, LeaveOutTheShunnedOnes) {
  Nodes nodes(ParamsOf("host=127.0.0.1,127.0.0.2 port=1"));
  nodes.Shun({"127.0.0.1 port 1"});
  EXPECT_EQ(NamesOf(nodes), Names({"127.0.0.2 port 1"}));
  nodes.Shun({"127.0.0.1 port 1", "127.0.0.2 port 1"});
  EXPECT_EQ(NamesOf(nodes), Names());
  nodes.Shun({});
  EXPECT_EQ(NamesOf(nodes).size(), 2u);
}

TEST(Nodes, GiveUpASilentHostByOurTimer) {
  const SilentPort silent;
  ConnectionOptions options;
  options.conninfo = absl::StrCat("host=127.0.0.1 port=", silent.port());
  options.connect_timeout = absl::Milliseconds(150);
  const Nodes nodes(*ConnectParams::Make(options));
  std::string error;
  EXPECT_EQ(nodes.Connect(nodes.InOrder()[0], &error), nullptr);
  EXPECT_TRUE(absl::StrContains(error, "not connected within 150ms")) << error;
}

TEST(Nodes, TheConnectionStringsTimerGoesBefore) {
  EXPECT_EQ(ParamsOf("host=x").connect_timeout(), absl::Seconds(2));
  EXPECT_EQ(ParamsOf("host=x connect_timeout=7").connect_timeout(), absl::Seconds(7));
  EXPECT_EQ(ParamsOf("host=x connect_timeout=1").connect_timeout(), absl::Seconds(2));
  EXPECT_EQ(ParamsOf("host=x connect_timeout=0").connect_timeout(), absl::Seconds(2));
}

}  // namespace
}  // namespace idempotency
