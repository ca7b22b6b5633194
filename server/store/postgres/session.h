// A connection that comes back: opens one when it is needed, drops it when it failed, and holds off
// while the database cannot be reached.
//
// For one thread at a time. After a connection could not be opened or was refused by the node, the
// next try waits 50 ms, then twice as long up to 1 s, each with jitter; meanwhile calls fail at
// once. A connection that merely ended is opened again at once.
//
// With Durability::kReplicated the sessions of a replica share a circuit (circuit.h): a commit that
// was not answered in time opens it, and while it is open nothing is sent and calls fail at once.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/metrics.h"
#include "server/store/postgres/connection.h"

namespace idempotency {

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(50);
  absl::Duration longest = absl::Seconds(1);
};

// What an open circuit means to a session.
enum class CircuitUse {
  kObey,    // nothing is sent
  kIgnore,  // the health check, which finds out whether it can be closed
};

class Session {
 public:
  // `circuit` is null with kLocal. It and `metrics` must outlive the session. Does not connect.
  Session(const ConnectionOptions& options, BackoffOptions backoff, Metrics* metrics,
          Circuit* circuit, CircuitUse circuit_use = CircuitUse::kObey);

  // Runs a pipeline on the connection, opening one if there is none. Opens one again, once, when an
  // idle connection turns out to be closed.
  PipelineOutcome Run(absl::Span<const Statement> statements, AnswersFrom answers);
  // Runs a pipeline inside the transaction that the last Run opened: never on another connection.
  PipelineOutcome Continue(absl::Span<const Statement> statements, AnswersFrom answers);

  // Ends the transaction that the last Run opened and that has written nothing, after which what it
  // found may be answered. What was found stays true without a standby to confirm it, so with
  // kLocal this cannot fail.
  std::optional<PipelineFailure> EndUnwritten();

  // Of the last connection that was opened; nullopt: none yet.
  const std::optional<DatabaseIdentity>& Identity() const { return identity_; }

  // How long until another try to connect is made; zero when a connection is there.
  absl::Duration BackoffLeft() const;
  // Whether the circuit is open for this session: trying again now is of no use.
  bool IsCutOff() const;

  // For the health check: see Connection. A connection whose commit is not answered can be taken
  // away, so that the next Run opens another, on a node that is not shunned; and given back.
  std::optional<PipelineOutcome> RunWithin(absl::Span<const Statement> statements,
                                           AnswersFrom answers, absl::Duration patience);
  std::unique_ptr<Connection> TakeConnection() { return std::move(connection_); }
  void GiveConnection(std::unique_ptr<Connection> connection);
  void Shun(std::vector<std::string> node_names);
  // REQUIRES: the last call succeeded.
  const Connection& connection() const { return *connection_; }

 private:
  std::optional<PipelineFailure> Connect();
  PipelineOutcome Judge(PipelineOutcome outcome);
  void BackOff();

  const ConnectionOptions options_;
  const BackoffOptions backoff_;
  Metrics* const metrics_;
  Circuit* const circuit_;
  const CircuitUse circuit_use_;
  // Without a value: why there is none.
  absl::StatusOr<Nodes> nodes_;
  std::unique_ptr<Connection> connection_;
  std::optional<DatabaseIdentity> identity_;
  absl::Duration backoff_now_;        // zero: the last try worked
  absl::Duration no_connect_before_;  // on Clock::BootTime's scale
  PipelineFailure last_failure_;
  std::minstd_rand jitter_;
};

}  // namespace idempotency
