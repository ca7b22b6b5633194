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
#include "server/store/postgres/circuit.h"
#include "server/store/postgres/durability.h"
#include "server/store/postgres/nodes.h"
#include "server/store/postgres/params.h"
#include "server/store/postgres/rows.h"
#include "server/store/postgres/sql.h"
#include "server/store/postgres/sqlstate.h"
#include "server/store/store.h"

namespace idempotency {

struct ConnectionOptions {
  // libpq's: a URI or keyword=value pairs, several hosts included.
  std::string conninfo;
  Durability durability = Durability::kLocal;
  // For each host and address.
  absl::Duration connect_timeout = absl::Seconds(2);
  // From sending a pipeline to the results of all its statements.
  absl::Duration statement_timeout = absl::Seconds(5);
  // From there to the end of the commit: the server's statement_timeout does not cover the wait for
  // a standby. With kLocal the two cannot be told apart: results come with the commit's.
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
  // With kReplicated: commits here are not answered, or do not wait for a standby. The circuit is
  // to be opened.
  bool opens_circuit = false;
  // The commit was given up: a process of the server may wait for the standby until it is back.
  bool leaves_commit = false;
  // With kSchema, and with kUnavailable when commits would be answered before they are safe or the
  // session is shared: what is wrong with the database, for its operator. Names versions and
  // settings alone, no host, no SQL.
  std::string unfit;
};

// Either a failure, or one result for each statement.
struct PipelineOutcome {
  std::optional<PipelineFailure> failure;
  std::vector<PgResult> results;
};

// What check.sql found: the database's identity when it is fit to serve. kFailedPrecondition when
// its schema's version is not in this server's range; the message names both. kUnavailable when the
// node is read-only, kDataLoss when it answers commits before they are on disk, or when the session
// is not the one that was given `mark` as it was set up.
absl::StatusOr<DatabaseIdentity> CheckFitness(const PGresult* checked, absl::string_view mark);

// The server answers COMMIT of a failed transaction by the command tag ROLLBACK, without an error.
bool WasRolledBack(const PGresult* commit);

class Connection {
 public:
  struct OpenOutcome {
    std::unique_ptr<Connection> connection;  // null after a failure
    std::optional<PipelineFailure> failure;  // kNotSent; of the kind kSchema or kUnavailable
  };
  // Connects to the first of the nodes that can be used: sets the session up, checks that the
  // schema's version is in range and, with kReplicated, that commits wait for a standby, and
  // prepares the service's statements. Begins no further node once 2 * connect_timeout have passed;
  // the next search goes on with it. The failure is the most telling one.
  //
  // `circuit` may be null. Once it is open, a commit on its way is not waited for any longer. It
  // must outlive the connection.
  static OpenOutcome Open(const ConnectionOptions& options, Nodes* nodes, const Circuit* circuit);

  // Runs the statements and a Sync. Outside of a transaction they are one, committed at the Sync; a
  // transaction that was opened before is committed by a COMMIT as the last statement. After a
  // failure no transaction is open any more.
  //
  // With kReplicated and answers to be given, success means that the commit has waited for a
  // standby. The statements that this needs are added here, and their results taken away.
  PipelineOutcome Run(absl::Span<const Statement> statements, AnswersFrom answers);

  // As Run, but when the commit was not answered after `patience`, returns nothing: it is still on
  // its way, and Resume is to be called. commit_timeout does not count.
  std::optional<PipelineOutcome> RunWithin(absl::Span<const Statement> statements,
                                           AnswersFrom answers, absl::Duration patience);
  std::optional<PipelineOutcome> Resume(absl::Duration patience);

  // False once the connection has failed.
  bool IsUsable() const { return usable_; }
  // As it was when the connection was set up.
  const DatabaseIdentity& identity() const { return identity_; }
  const Node& node() const { return node_; }
  // What the session was given as it was set up, and no other one has.
  absl::string_view mark() const { return mark_; }
  // How old the server's configuration was when it was last looked at. REQUIRES: kReplicated.
  absl::Duration config_age() const { return settings_.now - settings_.loaded_at; }

 private:
  // A pipeline whose results are being read.
  struct Reading {
    size_t statements = 0;  // the caller's
    bool has_barrier = false;
    bool is_checked = false;      // durability.sql stands before and after the commit
    bool ends_in_commit = false;  // by a COMMIT
    size_t commit_at = 0;         // statements before the commit
    size_t syncs_left = 0;
    size_t ended = 0;  // statements whose results were read to the end
    bool is_in_results = false;
    absl::Duration commit_timeout;
    absl::Duration deadline;  // on Clock::BootTime's scale
    std::optional<PipelineFailure> failure;
    std::vector<PgResult> results;

    bool IsInCommit() const { return is_checked && ended >= commit_at; }
    bool IsPastCommit() const {
      return is_checked && (ends_in_commit ? ended > commit_at : syncs_left < 2);
    }
  };
  enum class Heard { kResult, kNotYet, kLost };

  Connection(const ConnectionOptions& options, PgConnection connection, Node node,
             const Circuit* circuit);

  // One message to be pipelined: a prepared statement.
  bool SendPrepared(const Statement& statement);
  // Sends the whole pipeline, with what kReplicated adds.
  std::optional<PipelineFailure> Send(absl::Span<const Statement> statements, AnswersFrom answers,
                                      absl::Duration commit_timeout);
  std::optional<PipelineFailure> SetUp();
  // Whether the server closed the connection while it was idle.
  bool IsClosedByServer();
  // Ends a pipeline of `statements` that were sent one by one, and reads its results.
  PipelineOutcome Finish(size_t statements);
  // Reads results until the pipeline has ended, or `until` has come: nothing then.
  std::optional<PipelineOutcome> Receive(absl::Duration until);
  // What the results that were read amount to.
  PipelineOutcome Conclude();
  std::optional<PipelineFailure> CheckCommit(const PGresult* before, const PGresult* after);
  // After a failure: the connection is given up, or the transaction rolled back.
  PipelineOutcome CleanUp(PipelineOutcome outcome);
  // The next result, null at the end of a statement's.
  Heard NextResult(absl::Duration until, PgResult* result);
  // Waits until the socket can be read or, with output pending, written.
  Heard Await(absl::Duration until);
  void RollBack();
  PipelineFailure Lost(absl::string_view doing);
  static void OnNotice(void* self, const PGresult* notice);

  const ConnectionOptions options_;
  const PgConnection connection_;
  const Node node_;
  const std::string mark_;
  DatabaseIdentity identity_;
  const Circuit* const circuit_;
  Reading reading_;
  CommitSettings settings_;  // as last read
  bool usable_ = true;
  bool is_late_ = false;        // a timer fired
  bool is_called_off_ = false;  // the circuit was opened during the commit
  bool in_doubt_ = false;       // a WARNING of doubt came since the last Run
};

}  // namespace idempotency
