#include "server/store/postgres/nodes.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/conninfo.h"

namespace idempotency {
namespace {

// Shorter than libpq's own least, which counts whole seconds, is a setting of ours only.
constexpr int64_t kLeastSecondsOfLibpq = 2;

std::vector<std::string> SplitList(const std::string& list) {
  if (list.empty()) return {};
  return absl::StrSplit(list, ',');
}

// What libpq would use for host, hostaddr and port, after the environment and the service file had
// their say. It fails on a bad sslmode before it opens a socket, and can then be asked.
std::map<std::string, std::string> ResolvedByLibpq(ConnectParams params) {
  params.Set("sslmode", "none of these");
  const PgConnection unopened(
      PQconnectStartParams(params.Keywords().data(), params.Values().data(), 0));
  std::map<std::string, std::string> values;
  PQconninfoOption* const options = PQconninfo(unopened.get());
  for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr;
       ++option) {
    if (option->val != nullptr) values[option->keyword] = option->val;
  }
  PQconninfoFree(options);
  return values;
}

// One node for each entry of the lists; a single one with the lists as they are where their lengths
// do not fit, for libpq to refuse.
std::vector<Node> ListNodes(const ConnectParams& params) {
  std::map<std::string, std::string> values = ResolvedByLibpq(params);
  const std::vector<std::string> hosts = SplitList(values["host"]);
  const std::vector<std::string> addresses = SplitList(values["hostaddr"]);
  const std::vector<std::string> ports = SplitList(values["port"]);
  const size_t count = std::max({hosts.size(), addresses.size(), size_t{1}});
  const auto fits = [count](const std::vector<std::string>& list, bool may_be_shared) {
    return list.empty() || list.size() == count || (may_be_shared && list.size() == 1);
  };
  if (!fits(hosts, false) || !fits(addresses, false) || !fits(ports, true)) {
    return {{values["host"], values["hostaddr"], values["port"]}};
  }
  std::vector<Node> nodes(count);
  for (size_t i = 0; i < count; ++i) {
    if (!hosts.empty()) nodes[i].host = hosts[i];
    if (!addresses.empty()) nodes[i].address = addresses[i];
    if (!ports.empty()) nodes[i].port = ports.size() == 1 ? ports[0] : ports[i];
  }
  return nodes;
}

// A node for each address of the host.
void AppendResolved(const Node& node, std::vector<Node>* nodes) {
  const bool is_socket = absl::StartsWith(node.host, "/") || absl::StartsWith(node.host, "@");
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (node.host.empty() || is_socket || !node.address.empty() ||
      getaddrinfo(node.host.c_str(), nullptr, &hints, &found) != 0) {
    nodes->push_back(node);
    return;
  }
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      nodes->push_back({node.host, text, node.port});
    }
  }
  freeaddrinfo(found);
}

std::string OneLine(const char* message) {
  std::string line(message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// Waits until the socket is ready for what libpq wants to do next, `deadline` at the most. False:
// too late, or it cannot be waited for.
bool AwaitSocket(PGconn* connection, PostgresPollingStatusType next, absl::Duration deadline) {
  for (;;) {
    const absl::Duration left = deadline - SystemClock()->BootTime();
    if (left <= absl::ZeroDuration()) return false;
    pollfd socket = {PQsocket(connection), 0, 0};
    socket.events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    const int ready =
        poll(&socket, 1,
             static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

absl::StatusOr<ConnectParams> ConnectParams::Make(const ConnectionOptions& options) {
  char* error = nullptr;
  PQconninfoOption* parsed = PQconninfoParse(options.conninfo.c_str(), &error);
  if (parsed == nullptr) {
    PQfreemem(error);
    return absl::InvalidArgumentError("the database's connection string cannot be parsed");
  }
  std::map<std::string, std::string> values;
  for (const PQconninfoOption* option = parsed; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values[option->keyword] = option->val;
  }
  PQconninfoFree(parsed);
  // What the service would add gives way to what libpq's variables and service files say.
  const std::map<std::string, std::string> outside = ValuesSetOutside(options.conninfo);
  for (const char* const keyword :
       {"connect_timeout", "target_session_attrs", "keepalives", "keepalives_idle",
        "keepalives_interval", "keepalives_count", "tcp_user_timeout"}) {
    const auto found = outside.find(keyword);
    if (found != outside.end()) values.emplace(*found);
  }
  ConnectParams params;
  params.connect_timeout_ = options.connect_timeout;
  int64_t given = 0;
  // libpq's rules: not above 0 is for ever, and 1 is 2.
  if (absl::SimpleAtoi(values["connect_timeout"], &given) && given > 0) {
    params.connect_timeout_ = absl::Seconds(std::max(given, kLeastSecondsOfLibpq));
  }
  if (values["connect_timeout"].empty()) values.erase("connect_timeout");
  const auto seconds =
      static_cast<int64_t>(std::ceil(absl::ToDoubleSeconds(options.connect_timeout)));
  // emplace keeps what was said.
  values.emplace("connect_timeout", absl::StrCat(std::max(seconds, kLeastSecondsOfLibpq)));
  values.emplace("target_session_attrs", "read-write");
  values.emplace("keepalives", "1");
  values.emplace("keepalives_idle", "5");
  values.emplace("keepalives_interval", "2");
  values.emplace("keepalives_count", "3");
  values.emplace(
      "tcp_user_timeout",
      absl::StrCat(absl::ToInt64Milliseconds(options.statement_timeout + options.commit_timeout)));
  // Not PGCLIENTENCODING: the statements' texts are UTF-8.
  values.emplace("client_encoding", "UTF8");
  values.emplace("fallback_application_name", "idempotencyd");
  for (auto& [keyword, value] : values) {
    params.keywords_.push_back(keyword);
    params.values_.push_back(value);
  }
  return params;
}

std::vector<const char*> ConnectParams::Keywords() const {
  std::vector<const char*> pointers;
  for (const std::string& keyword : keywords_) pointers.push_back(keyword.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<const char*> ConnectParams::Values() const {
  std::vector<const char*> pointers;
  for (const std::string& value : values_) pointers.push_back(value.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

void ConnectParams::Set(const std::string& keyword, const std::string& value) {
  const auto at = std::find(keywords_.begin(), keywords_.end(), keyword);
  if (at != keywords_.end()) {
    values_[at - keywords_.begin()] = value;
  } else {
    keywords_.push_back(keyword);
    values_.push_back(value);
  }
}

std::string Node::Name() const {
  return absl::StrCat(host,
                      address.empty() || address == host ? "" : absl::StrCat(" (", address, ")"),
                      " port ", port);
}

Nodes::Nodes(ConnectParams params) : listed_(ListNodes(params)), params_(std::move(params)) {}

std::vector<Node> Nodes::InOrder() const {
  std::vector<Node> nodes;
  for (const Node& node : listed_) AppendResolved(node, &nodes);
  const auto first = std::find_if(nodes.begin(), nodes.end(),
                                  [this](const Node& node) { return node.Name() == first_; });
  if (first != nodes.end()) std::rotate(nodes.begin(), first + (after_first_ ? 1 : 0), nodes.end());
  const auto is_shunned = [this](const Node& node) {
    return std::find(shunned_.begin(), shunned_.end(), node.Name()) != shunned_.end();
  };
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), is_shunned), nodes.end());
  return nodes;
}

PgConnection Nodes::Connect(const Node& node, std::string* error) const {
  ConnectParams params = params_;
  params.Set("host", node.host);
  params.Set("hostaddr", node.address);
  params.Set("port", node.port);
  const absl::Duration deadline = SystemClock()->BootTime() + params.connect_timeout();
  PgConnection connection(
      PQconnectStartParams(params.Keywords().data(), params.Values().data(), 0));
  IDEM_CHECK(connection != nullptr) << "out of memory";
  PostgresPollingStatusType polled =
      PQstatus(connection.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (polled == PGRES_POLLING_READING || polled == PGRES_POLLING_WRITING) {
    if (!AwaitSocket(connection.get(), polled, deadline)) {
      *error = absl::StrCat(node.Name(), ": not connected within ",
                            absl::FormatDuration(params.connect_timeout()));
      return nullptr;
    }
    polled = PQconnectPoll(connection.get());
  }
  if (polled == PGRES_POLLING_OK) return connection;
  *error = OneLine(PQerrorMessage(connection.get()));
  return nullptr;
}

void Nodes::Prefer(const Node& node) {
  first_ = node.Name();
  after_first_ = false;
}

void Nodes::PassOver(const Node& node) {
  first_ = node.Name();
  after_first_ = true;
}

}  // namespace idempotency
