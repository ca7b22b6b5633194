// A connection that comes back: opens one when it is needed, drops it when it failed, and holds off
// while the database cannot be reached.
//
// For one thread at a time. After a connection could not be opened or was refused by the node, the
// next try waits 50 ms, then twice as long up to 1 s, each with jitter; meanwhile calls fail at
// once. A connection that merely ended is opened again at once.
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

class Session {
 public:
  // `metrics` must outlive the session. Does not connect.
  Session(ConnectionOptions options, BackoffOptions backoff, Metrics* metrics);

  // Runs a pipeline on the connection, opening one if there is none. Opens one again, once, when an
  // idle connection turns out to be closed.
  PipelineOutcome Run(absl::Span<const Statement> statements);
  // Runs a pipeline inside the transaction that the last Run opened: never on another connection.
  PipelineOutcome Continue(absl::Span<const Statement> statements);

  // Of the last connection that was opened; nullopt: none yet.
  const std::optional<DatabaseIdentity>& Identity() const { return identity_; }

  // How long until another try to connect is made; zero when a connection is there.
  absl::Duration BackoffLeft() const;

 private:
  std::optional<PipelineFailure> Connect();
  PipelineOutcome Judge(PipelineOutcome outcome);
  void BackOff();

  const ConnectionOptions options_;
  const BackoffOptions backoff_;
  Metrics* const metrics_;
  std::unique_ptr<Connection> connection_;
  std::optional<DatabaseIdentity> identity_;
  absl::Duration backoff_now_;        // zero: the last try worked
  absl::Duration no_connect_before_;  // on Clock::BootTime's scale
  PipelineFailure last_failure_;
  std::minstd_rand jitter_;
};

}  // namespace idempotency
