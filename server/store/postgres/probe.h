// The health check of a replica whose answers wait for a standby (Durability::kReplicated):
// settings, schema, and a commit of its own that the standby has to confirm.
//
// A commit that is not confirmed leaves a process behind on the server. So this one is not given
// up: its connection is kept, and the next check asks whether it was answered meanwhile. There is
// never more than one such commit on a node. While one waits, the other nodes that the connection
// string names are tried: the node may be a primary that was left behind by a promotion.
//
// For one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/postgres/circuit.h"
#include "server/store/postgres/session.h"

namespace idempotency {

class Probe {
 public:
  // `circuit` and `metrics` must outlive the probe. Does not connect.
  Probe(const ConnectionOptions& options, BackoffOptions backoff, Circuit* circuit,
        Metrics* metrics);

  // As Store::Check. Waits for the standby for up to a second; statements have the usual timers.
  // Closes the circuit when the standby has confirmed a commit that was sent after the last reason
  // to open it; opens it when one has waited for commit_timeout.
  absl::Status Check();

  // As Store::Identity, of the connection that Check used.
  const std::optional<DatabaseIdentity>& Identity() const { return session_.Identity(); }

 private:
  // A connection whose commit is not answered yet.
  struct Waiting {
    std::unique_ptr<Connection> connection;
    absl::Duration since;  // on Clock::BootTime's scale
  };

  // Whether one of the commits that wait was answered; then its connection is the session's again.
  void HearWaiting();
  // Keeps the session's connection, whose commit is not answered.
  void KeepWaiting(absl::Duration since);
  absl::Status NotConfirmed();

  const ConnectionOptions options_;
  Circuit* const circuit_;
  Session session_;
  std::vector<Waiting> waiting_;  // one for a node
};

}  // namespace idempotency
