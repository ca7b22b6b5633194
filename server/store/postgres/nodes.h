// The nodes that a connection string names, and connecting to one of them under a timer of ours.
//
// libpq's own search over several hosts blocks for connect_timeout at each, and always begins with
// the first one: a primary that was left behind by a promotion but still lets everybody in would be
// found again and again. So hosts are resolved and tried one by one here, and a search begins where
// the last connection worked, or after the node that proved to be no use.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace idempotency {

struct ConnectionOptions;

struct PgConnectionCloser {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using PgConnection = std::unique_ptr<PGconn, PgConnectionCloser>;

// libpq's parameters with what the service adds where neither `conninfo` nor libpq's variables or a
// service file say something: target_session_attrs=read-write, keepalives, tcp_user_timeout,
// connect_timeout. The two arrays are parallel and end in nullptr.
class ConnectParams {
 public:
  // kInvalidArgument when libpq cannot parse the conninfo; the message does not repeat it.
  static absl::StatusOr<ConnectParams> Make(const ConnectionOptions& options);

  std::vector<const char*> Keywords() const;
  std::vector<const char*> Values() const;
  void Set(const std::string& keyword, const std::string& value);
  // For each node: the connection string's connect_timeout, else the options'.
  absl::Duration connect_timeout() const { return connect_timeout_; }

 private:
  std::vector<std::string> keywords_;
  std::vector<std::string> values_;
  absl::Duration connect_timeout_;
};

// One address. Empty fields are libpq's to fill in.
struct Node {
  std::string host;     // a name, an address, or the directory of a Unix socket
  std::string address;  // what the name resolved to
  std::string port;

  // "host (address) port 5432": identifies the node, and is for logs.
  std::string Name() const;
};

// For one thread at a time.
class Nodes {
 public:
  explicit Nodes(ConnectParams params);

  // All nodes, resolved anew, in the order in which to try them. Those whose names were shunned are
  // left out. Asks the system's resolver, which has timers of its own. Names that do not resolve
  // stay in, unresolved, for libpq to say so.
  std::vector<Node> InOrder() const;

  // Waits for connect_timeout at most. Null after a failure: `*error` then says why, and never
  // holds a password.
  PgConnection Connect(const Node& node, std::string* error) const;

  // The next search begins with this node: it worked.
  void Prefer(const Node& node);
  // The next search begins with the node after this one: its commits are not answered.
  void PassOver(const Node& node);
  // These are left out until told otherwise.
  void Shun(std::vector<std::string> names) { shunned_ = std::move(names); }

  absl::Duration connect_timeout() const { return params_.connect_timeout(); }

 private:
  // As the connection string lists them, not resolved.
  std::vector<Node> listed_;
  ConnectParams params_;
  std::string first_;  // the name of the node to begin with, or after; empty: the first one listed
  bool after_first_ = false;
  std::vector<std::string> shunned_;
};

}  // namespace idempotency
