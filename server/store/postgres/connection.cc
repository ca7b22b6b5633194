#include "server/store/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/status_macros.h"
#include "server/record/record_id.h"

namespace idempotency {
namespace {

using Effect = PipelineFailure::Effect;

// Prepared on every connection, in this order.
constexpr Query kPrepared[] = {
    Query::kTransactionBegin,
    Query::kTransactionCommit,
    Query::kTransactionRollback,
    Query::kLockTimeout,
    Query::kBeginInsert,
    Query::kBeginInsertOne,
    Query::kOwnerUpdate,
    Query::kRead,
    Query::kWaitProbe,
    Query::kLock,
    Query::kWrite,
    Query::kSweepStep,
    Query::kSurveyStep,
    Query::kPurgeStep,
    Query::kPurgeUnsettledStep,
    Query::kCountBlocks,
    Query::kCheck,
    Query::kClockRead,
    Query::kClockRefresh,
};
// Only with Durability::kReplicated.
constexpr Query kPreparedForStandby[] = {Query::kBarrier, Query::kDurability};

// How often a commit that is waited for looks whether the circuit has been opened by another one:
// its caller is to be answered at once then.
constexpr absl::Duration kLookAtCircuit = absl::Milliseconds(10);

absl::Duration Now() { return SystemClock()->BootTime(); }

std::string Millis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))), "ms");
}

absl::string_view Field(const PGresult* result, int code) {
  const char* field = PQresultErrorField(result, code);
  return field == nullptr ? absl::string_view() : absl::string_view(field);
}

// The settings of session.sql would be in force for others, and not for all of our own statements.
constexpr char kSharedSession[] =
    "the session is shared with other clients: PgBouncer, or another pooler, must be in session "
    "mode, with DISCARD ALL as its reset query";

// PostgreSQL's reason, without what an item holds: the texts of data and constraint errors may
// quote values.
std::string SafeMessage(const PGresult* result) {
  const absl::string_view state = Field(result, PG_DIAG_SQLSTATE);
  std::string message = absl::StrCat("SQLSTATE ", state);
  const absl::string_view constraint = Field(result, PG_DIAG_CONSTRAINT_NAME);
  if (!constraint.empty()) absl::StrAppend(&message, ", constraint ", constraint);
  if (KindOfSqlState(state) != ErrorKind::kItem) {
    absl::StrAppend(&message, ": ", Field(result, PG_DIAG_MESSAGE_PRIMARY));
  }
  return message;
}

std::string OneLine(const char* message) {
  std::string line(message);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

absl::StatusOr<DatabaseIdentity> CheckFitness(const PGresult* checked, absl::string_view mark) {
  RETURN_IF_ERROR(CheckShape(checked, {PgType::kInt4, PgType::kInt4, PgType::kBool, PgType::kBool,
                                       PgType::kInt8, PgType::kInt8, PgType::kText}));
  if (PQntuples(checked) != 1) return absl::InternalError("check: no row");
  RowReader row(checked, 0);
  const int32_t version = row.Int4();
  const int32_t oldest_server = row.Int4();
  const bool is_read_only = row.Bool();
  const bool forgets_commits = row.Bool();
  DatabaseIdentity identity;
  identity.system_identifier = static_cast<uint64_t>(row.Int8());
  identity.timeline = static_cast<uint32_t>(row.Int8());
  const bool is_own_session = row.Bytes() == mark;
  RETURN_IF_ERROR(row.status());
  if (version < kOldestSchema || oldest_server > kNewestSchema) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the database's schema has version %d, for servers of schema %d and newer; "
                        "this server works with versions %d to %d",
                        version, oldest_server, kOldestSchema, kNewestSchema));
  }
  if (is_read_only) return absl::UnavailableError("the database takes no writes");
  if (forgets_commits) {
    return absl::DataLossError(
        "synchronous_commit is off for this role or database: a crash would lose answers already "
        "given");
  }
  if (!is_own_session) return absl::DataLossError(kSharedSession);
  return identity;
}

bool WasRolledBack(const PGresult* commit) {
  return absl::string_view(PQcmdStatus(const_cast<PGresult*>(commit))) == "ROLLBACK";
}

Connection::Connection(const ConnectionOptions& options, PgConnection connection, Node node,
                       const Circuit* circuit)
    : options_(options),
      connection_(std::move(connection)),
      node_(std::move(node)),
      mark_(RandomUuidText()),
      circuit_(circuit) {
  PQsetNoticeReceiver(connection_.get(), &Connection::OnNotice, this);
  // PQerrorMessage then holds no text of the server: a DETAIL quotes whole rows.
  PQsetErrorVerbosity(connection_.get(), PQERRORS_SQLSTATE);
}

void Connection::OnNotice(void* self, const PGresult* notice) {
  if (Field(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING" &&
      IsWarningOfDoubt(Field(notice, PG_DIAG_SQLSTATE), Field(notice, PG_DIAG_SOURCE_FILE))) {
    static_cast<Connection*>(self)->in_doubt_ = true;
  }
}

namespace {

// Of the failures of several nodes the one to report: a schema that does not fit and commits that
// wait for nobody are for an operator; anything else passes by itself.
bool TellsMore(const PipelineFailure& one, const PipelineFailure& other) {
  const auto weight = [](const PipelineFailure& failure) {
    return failure.kind == ErrorKind::kSchema ? 2 : failure.opens_circuit ? 1 : 0;
  };
  return weight(one) >= weight(other);
}

}  // namespace

Connection::OpenOutcome Connection::Open(const ConnectionOptions& options, Nodes* nodes,
                                         const Circuit* circuit) {
  const absl::Duration enough = Now() + 2 * nodes->connect_timeout();
  PipelineFailure failure = {Effect::kNotSent, ErrorKind::kUnavailable, "connect: no node to try"};
  for (const Node& node : nodes->InOrder()) {
    if (Now() >= enough) break;
    PipelineFailure refused = {Effect::kNotSent, ErrorKind::kUnavailable, "connect: "};
    std::string error;
    PgConnection raw = nodes->Connect(node, &error);
    if (raw == nullptr) {
      refused.message += error;
    } else {
      std::unique_ptr<Connection> connection(
          new Connection(options, std::move(raw), node, circuit));
      std::optional<PipelineFailure> unfit = connection->SetUp();
      if (!unfit.has_value()) {
        nodes->Prefer(node);
        return {std::move(connection), std::nullopt};
      }
      refused = *std::move(unfit);
      refused.effect = Effect::kNotSent;
      if (refused.kind != ErrorKind::kSchema) refused.kind = ErrorKind::kUnavailable;
      refused.message = absl::StrCat("setting up a connection: ", refused.message);
    }
    nodes->PassOver(node);
    if (TellsMore(refused, failure)) failure = std::move(refused);
  }
  return {nullptr, std::move(failure)};
}

std::optional<PipelineFailure> Connection::SetUp() {
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1) {
    return Lost("entering pipeline mode");
  }
  const bool is_replicated = options_.durability == Durability::kReplicated;
  const absl::Duration all = options_.statement_timeout + options_.commit_timeout;
  const std::string lock_timeout = Millis(options_.lock_timeout);
  const std::string timeout = Millis(all);
  const char* settings[] = {lock_timeout.c_str(), timeout.c_str(), timeout.c_str(), mark_.c_str()};
  const auto send = [this](Query query) {
    return PQsendQueryParams(connection_.get(), QueryText(query), 0, nullptr, nullptr, nullptr,
                             nullptr, 1) == 1;
  };
  if (PQsendQueryParams(connection_.get(), QueryText(Query::kSession), 4, nullptr, settings,
                        nullptr, nullptr, 1) != 1 ||
      !send(is_replicated ? Query::kDurability : Query::kKeepCommit) || !send(Query::kCheck)) {
    return Lost("sending the session's settings");
  }
  PipelineOutcome checked = Finish(3);
  if (checked.failure.has_value() && checked.failure->kind == ErrorKind::kSchema) {
    checked.failure->message = absl::StrFormat(
        "the database has no schema of this service; this server works with versions %d to %d",
        kOldestSchema, kNewestSchema);
    checked.failure->unfit = checked.failure->message;
  }
  if (checked.failure.has_value()) return std::move(checked.failure);
  const absl::StatusOr<DatabaseIdentity> fit = CheckFitness(checked.results[2].get(), mark_);
  PipelineFailure unfit = {Effect::kRejected, ErrorKind::kUnavailable,
                           std::string(fit.status().message())};
  if (absl::IsFailedPrecondition(fit.status())) {
    unfit.kind = ErrorKind::kSchema;
    unfit.unfit = unfit.message;
    return unfit;
  }
  if (is_replicated) {
    const PGresult* row = checked.results[1].get();
    if (std::optional<PipelineFailure> undurable = CheckCommit(row, row)) return undurable;
  }
  if (!fit.ok()) {
    if (absl::IsDataLoss(fit.status())) unfit.unfit = unfit.message;
    return unfit;
  }
  identity_ = *fit;
  size_t prepared = 0;
  const auto prepare = [&](Query query) {
    ++prepared;
    return PQsendPrepare(connection_.get(), QueryName(query), QueryText(query), 0, nullptr) == 1;
  };
  bool is_sent = std::all_of(std::begin(kPrepared), std::end(kPrepared), prepare);
  if (is_replicated) {
    is_sent = is_sent &&
              std::all_of(std::begin(kPreparedForStandby), std::end(kPreparedForStandby), prepare);
  }
  if (!is_sent) return Lost("sending statements to prepare");
  std::optional<PipelineFailure> failure = Finish(prepared).failure;
  if (failure.has_value() && failure->kind == ErrorKind::kSharedSession) {
    failure->unfit = kSharedSession;
  }
  return failure;
}

bool Connection::IsClosedByServer() {
  // A server that goes away sends its last message and closes; both are read here, so that a batch
  // is not sent into a connection of which the death is already known.
  pollfd socket = {PQsocket(connection_.get()), POLLIN, 0};
  while (poll(&socket, 1, 0) > 0) {
    if (PQconsumeInput(connection_.get()) != 1) return true;
    if (PQstatus(connection_.get()) != CONNECTION_OK) return true;
  }
  return false;
}

PipelineOutcome Connection::Run(absl::Span<const Statement> statements, AnswersFrom answers) {
  if (std::optional<PipelineFailure> failure = Send(statements, answers, options_.commit_timeout)) {
    return CleanUp({std::move(failure), {}});
  }
  return CleanUp(*Receive(absl::InfiniteDuration()));
}

std::optional<PipelineOutcome> Connection::RunWithin(absl::Span<const Statement> statements,
                                                     AnswersFrom answers, absl::Duration patience) {
  if (std::optional<PipelineFailure> failure =
          Send(statements, answers, absl::InfiniteDuration())) {
    return CleanUp({std::move(failure), {}});
  }
  return Resume(patience);
}

std::optional<PipelineOutcome> Connection::Resume(absl::Duration patience) {
  std::optional<PipelineOutcome> outcome = Receive(Now() + patience);
  if (!outcome.has_value()) return std::nullopt;
  return CleanUp(*std::move(outcome));
}
bool Connection::SendPrepared(const Statement& statement) {
  const std::vector<std::string>& values = statement.params.values();
  std::vector<const char*> pointers(values.size());
  std::vector<int> lengths(values.size());
  const std::vector<int> formats(values.size(), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    pointers[i] = values[i].data();
    lengths[i] = static_cast<int>(values[i].size());
  }
  return PQsendQueryPrepared(connection_.get(), QueryName(statement.query),
                             static_cast<int>(values.size()), pointers.data(), lengths.data(),
                             formats.data(), 1) == 1;
}

std::optional<PipelineFailure> Connection::Send(absl::Span<const Statement> statements,
                                                AnswersFrom answers,
                                                absl::Duration commit_timeout) {
  IDEM_CHECK(usable_) << "a connection that failed was used again";
  in_doubt_ = false;
  if (IsClosedByServer()) {
    PipelineFailure failure = Lost("while idle");
    failure.effect = Effect::kNotSent;
    return failure;
  }
  reading_ = Reading();
  reading_.statements = statements.size();
  reading_.ends_in_commit =
      !statements.empty() && statements.back().query == Query::kTransactionCommit;
  reading_.is_checked =
      options_.durability == Durability::kReplicated && answers != AnswersFrom::kNothing;
  reading_.has_barrier = reading_.is_checked && answers == AnswersFrom::kWhatItFound;
  reading_.commit_at = statements.size() - (reading_.ends_in_commit ? 1 : 0);
  reading_.syncs_left = 1;
  reading_.commit_timeout = commit_timeout;
  reading_.deadline = Now() + options_.statement_timeout;
  bool is_sent = true;
  for (const Statement& statement : statements.first(reading_.commit_at)) {
    is_sent = is_sent && SendPrepared(statement);
  }
  if (reading_.has_barrier) {
    is_sent = is_sent && SendPrepared({Query::kBarrier, {}});
    ++reading_.commit_at;
  }
  if (reading_.is_checked) {
    // Results come before the commit, so that its timer runs from there: the server would keep them
    // back until it waits for the next message.
    is_sent = is_sent && SendPrepared({Query::kDurability, {}}) &&
              PQsendFlushRequest(connection_.get()) == 1;
    ++reading_.commit_at;
  }
  if (reading_.ends_in_commit) is_sent = is_sent && SendPrepared(statements.back());
  if (reading_.is_checked) {
    if (!reading_.ends_in_commit) {
      is_sent = is_sent && PQpipelineSync(connection_.get()) == 1;
      ++reading_.syncs_left;
    }
    is_sent = is_sent && SendPrepared({Query::kDurability, {}});
  }
  is_sent = is_sent && PQpipelineSync(connection_.get()) == 1;
  return is_sent ? std::nullopt : std::make_optional(Lost("sending"));
}

PipelineOutcome Connection::Finish(size_t statements) {
  reading_ = Reading();
  reading_.statements = statements;
  reading_.commit_at = statements;
  reading_.syncs_left = 1;
  reading_.commit_timeout = options_.commit_timeout;
  reading_.deadline = Now() + options_.statement_timeout;
  if (PQpipelineSync(connection_.get()) != 1) return {Lost("sending"), {}};
  return *Receive(absl::InfiniteDuration());
}

std::optional<PipelineOutcome> Connection::Receive(absl::Duration until) {
  while (reading_.syncs_left > 0) {
    PgResult result;
    switch (NextResult(until, &result)) {
      case Heard::kNotYet:
        return std::nullopt;
      case Heard::kLost:
        return PipelineOutcome{Lost("waiting for the answer"), {}};
      case Heard::kResult:
        break;
    }
    if (result == nullptr) {
      if (!reading_.is_in_results) return PipelineOutcome{Lost("after too few results"), {}};
      reading_.is_in_results = false;
      if (++reading_.ended == reading_.commit_at) {
        reading_.deadline = Now() + reading_.commit_timeout;
      }
      continue;
    }
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_PIPELINE_SYNC) {
      --reading_.syncs_left;
      continue;
    }
    reading_.is_in_results = true;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      reading_.results.push_back(std::move(result));
    } else if (status == PGRES_FATAL_ERROR && !reading_.failure.has_value()) {
      reading_.failure =
          PipelineFailure{Effect::kRejected, KindOfSqlState(Field(result.get(), PG_DIAG_SQLSTATE)),
                          SafeMessage(result.get())};
      // What was committed before the error is not undone by it.
      if (reading_.IsPastCommit()) reading_.failure->kind = ErrorKind::kLost;
    }
  }
  return Conclude();
}

PipelineOutcome Connection::Conclude() {
  if (reading_.failure.has_value()) return {std::move(reading_.failure), {}};
  if (in_doubt_) return {Lost("after a WARNING that the commit was not waited for"), {}};
  std::vector<PgResult> results = std::move(reading_.results);
  const size_t expected =
      reading_.statements + (reading_.has_barrier ? 1 : 0) + (reading_.is_checked ? 2 : 0);
  if (results.size() != expected) return {Lost("after too few results"), {}};
  const size_t commit = reading_.commit_at;
  if (reading_.ends_in_commit && WasRolledBack(results[commit].get())) {
    return {
        PipelineFailure{Effect::kRejected, ErrorKind::kRunAgain, "COMMIT was answered by ROLLBACK"},
        {}};
  }
  if (reading_.is_checked) {
    auto undurable = CheckCommit(results[commit - 1].get(), results.back().get());
    if (undurable.has_value()) return {std::move(undurable), {}};
    results.pop_back();
    const auto added = results.begin() + static_cast<std::ptrdiff_t>(commit);
    results.erase(added - (reading_.has_barrier ? 2 : 1), added);
  }
  return {std::nullopt, std::move(results)};
}

std::optional<PipelineFailure> Connection::CheckCommit(const PGresult* before,
                                                       const PGresult* after) {
  CommitSettings earlier;
  absl::Status checked = ReadCommitSettings(before, &earlier);
  if (checked.ok()) checked = ReadCommitSettings(after, &settings_);
  if (checked.ok()) checked = CheckReplicated(earlier, settings_);
  if (checked.ok()) return std::nullopt;
  // It was committed, perhaps on this node alone.
  PipelineFailure failure = Lost("for want of a standby");
  failure.message = std::string(checked.message());
  if (absl::IsUnavailable(checked)) {
    failure.kind = ErrorKind::kUnavailable;
    failure.opens_circuit = true;
    failure.unfit = failure.message;
  }
  return failure;
}

PipelineOutcome Connection::CleanUp(PipelineOutcome outcome) {
  if (!outcome.failure.has_value() || !usable_) return outcome;
  if (outcome.failure->kind == ErrorKind::kLost) {
    outcome.failure->effect = Effect::kLost;
    usable_ = false;
  } else {
    RollBack();
  }
  return outcome;
}

Connection::Heard Connection::NextResult(absl::Duration until, PgResult* result) {
  for (;;) {
    const int unsent = PQflush(connection_.get());
    if (unsent < 0) return Heard::kLost;
    if (unsent == 0 && PQisBusy(connection_.get()) == 0) break;
    const Heard heard = Await(until);
    if (heard != Heard::kResult) return heard;
  }
  result->reset(PQgetResult(connection_.get()));
  // libpq makes up an error result for a connection that has ended.
  return PQstatus(connection_.get()) == CONNECTION_OK ? Heard::kResult : Heard::kLost;
}

Connection::Heard Connection::Await(absl::Duration until) {
  const absl::Duration now = Now();
  is_late_ = reading_.deadline <= now;
  is_called_off_ = circuit_ != nullptr && reading_.IsInCommit() && circuit_->IsOpen();
  if (is_late_ || is_called_off_) return Heard::kLost;
  if (until <= now) return Heard::kNotYet;
  absl::Duration left = std::min(reading_.deadline, until) - now;
  if (circuit_ != nullptr && reading_.IsInCommit()) left = std::min(left, kLookAtCircuit);
  pollfd socket = {PQsocket(connection_.get()), POLLIN, 0};
  if (PQflush(connection_.get()) == 1) socket.events |= POLLOUT;
  const auto timeout = static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(std::min(left, absl::Hours(1)), absl::Milliseconds(1))));
  const int ready = poll(&socket, 1, timeout);
  if (ready < 0 && errno != EINTR) return Heard::kLost;
  // After a time without news the caller comes back, and the timers are looked at again.
  if (ready <= 0 || (socket.revents & (POLLIN | POLLERR | POLLHUP)) == 0) return Heard::kResult;
  return PQconsumeInput(connection_.get()) == 1 ? Heard::kResult : Heard::kLost;
}

void Connection::RollBack() {
  if (PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
  if (!SendPrepared({Query::kTransactionRollback, {}}) || Finish(1).failure.has_value()) {
    usable_ = false;
  }
}

PipelineFailure Connection::Lost(absl::string_view doing) {
  usable_ = false;
  PipelineFailure failure = {Effect::kLost, ErrorKind::kLost, ""};
  if ((is_late_ || is_called_off_) && reading_.IsInCommit()) {
    failure.message = "the commit was not answered in time: no standby has confirmed it";
    failure.opens_circuit = is_late_;
    failure.leaves_commit = true;
    return failure;
  }
  const std::string reason =
      is_late_ ? "a timer fired" : OneLine(PQerrorMessage(connection_.get()));
  failure.message = absl::StrCat("connection lost ", doing, ": ", reason);
  return failure;
}

}  // namespace idempotency
