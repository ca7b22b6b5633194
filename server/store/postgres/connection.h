// One connection to PostgreSQL, and pipelines on it: a few statements and a Sync, in one round
// trip.
//
// Nothing of a pipeline is believed before the server has ended it with ReadyForQuery: with the
// extended protocol rows and command tags come before the commit. What cannot be known is told
// apart from what did not happen (PipelineFailure::Effect).
//
// For one thread at a time. A connection that failed is never used again: it is closed, and the
// owner opens another. A commit in flight is never cancelled; closing the socket is what is done.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/postgres/params.h"
#include "server/store/postgres/rows.h"
#include "server/store/postgres/sql.h"
#include "server/store/postgres/sqlstate.h"
#include "server/store/store.h"

namespace idempotency {

struct ConnectionOptions {
  // libpq's: a URI or keyword=value pairs, several hosts included.
  std::string conninfo;
  // For each host and address; libpq counts whole seconds, at least 2.
  absl::Duration connect_timeout = absl::Seconds(2);
  // From sending a pipeline to the results of all its statements.
  absl::Duration statement_timeout = absl::Seconds(5);
  // From there to the end of the commit: the server's statement_timeout does not cover the wait for
  // a standby.
  absl::Duration commit_timeout = absl::Seconds(5);
  absl::Duration lock_timeout = absl::Milliseconds(250);
};

// One execution of a prepared statement.
struct Statement {
  Query query;
  Params params;
};

struct PipelineFailure {
  enum class Effect {
    kNotSent,   // the server never saw it
    kRejected,  // the server answered with an error and rolled everything back
    kLost,      // sent, and its end was not heard: it may have happened
  };
  Effect effect = Effect::kNotSent;
  ErrorKind kind = ErrorKind::kLost;
  // For logs: SQLSTATE and reason, without the values of any item.
  std::string message;
};

// Either a failure, or one result for each statement.
struct PipelineOutcome {
  std::optional<PipelineFailure> failure;
  std::vector<PgResult> results;
};

// libpq's parameters with what the service adds where `conninfo` says nothing:
// target_session_attrs=read-write, keepalives, tcp_user_timeout, connect_timeout. The two arrays
// are parallel and end in nullptr.
class ConnectParams {
 public:
  // kInvalidArgument when libpq cannot parse the conninfo; the message does not repeat it.
  static absl::StatusOr<ConnectParams> Make(const ConnectionOptions& options);

  std::vector<const char*> Keywords() const;
  std::vector<const char*> Values() const;

 private:
  std::vector<std::string> keywords_;
  std::vector<std::string> values_;
};

// What check.sql found: the database's identity when it is fit to serve. kFailedPrecondition when
// its schema's version is not in this server's range; the message names both. kUnavailable when the
// node is read-only, or answers commits before they are on disk.
absl::StatusOr<DatabaseIdentity> CheckFitness(const PGresult* checked);

// The server answers COMMIT of a failed transaction by the command tag ROLLBACK, without an error.
bool WasRolledBack(const PGresult* commit);

class Connection {
 public:
  // Connects, sets the session up, checks that the schema's version is in range, and prepares the
  // service's statements. Blocks for connect_timeout for each host, and for statement_timeout.
  struct OpenOutcome {
    std::unique_ptr<Connection> connection;  // null after a failure
    std::optional<PipelineFailure> failure;  // kNotSent; of the kind kSchema or kUnavailable
  };
  static OpenOutcome Open(const ConnectionOptions& options);

  // Runs the statements and a Sync. Outside of a transaction they are one, committed at the Sync.
  // After a failure no transaction is open any more.
  PipelineOutcome Run(absl::Span<const Statement> statements);

  // False once the connection has failed.
  bool IsUsable() const { return usable_; }
  // As it was when the connection was set up.
  const DatabaseIdentity& identity() const { return identity_; }

 private:
  struct Closer {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  Connection(const ConnectionOptions& options, PGconn* connection);

  // One message to be pipelined: a prepared statement, a text, or a text to be prepared.
  bool SendPrepared(const Statement& statement);
  std::optional<PipelineFailure> SetUp();
  // Whether the server closed the connection while it was idle.
  bool IsClosedByServer();
  // Sends what is buffered, ends the pipeline, and reads `expected` results and the Sync.
  PipelineOutcome Finish(size_t expected, bool ends_in_commit);
  // The next result, null at the end of a statement's. False: lost.
  bool NextResult(absl::Duration deadline, PgResult* result);
  // Waits until the socket can be read or, with output pending, written. False: lost or too late.
  bool Await(absl::Duration deadline);
  void RollBack();
  PipelineFailure Lost(absl::string_view doing);
  static void OnNotice(void* self, const PGresult* notice);

  const ConnectionOptions options_;
  const std::unique_ptr<PGconn, Closer> connection_;
  DatabaseIdentity identity_;
  bool usable_ = true;
  bool is_late_ = false;   // a timer fired
  bool in_doubt_ = false;  // a WARNING of doubt came since the last Run
};

}  // namespace idempotency
