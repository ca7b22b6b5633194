#include "server/store/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/status_macros.h"

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
    Query::kOwnerUpdate,
    Query::kRead,
    Query::kLock,
    Query::kWrite,
    Query::kSweepStep,
    Query::kPurgeStep,
    Query::kPurgeUnsettledStep,
    Query::kCountBlocks,
    Query::kCheck,
};

absl::Duration Now() { return SystemClock()->BootTime(); }

std::string Millis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))), "ms");
}

absl::string_view Field(const PGresult* result, int code) {
  const char* field = PQresultErrorField(result, code);
  return field == nullptr ? absl::string_view() : absl::string_view(field);
}

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
  const auto seconds =
      static_cast<int64_t>(std::ceil(absl::ToDoubleSeconds(options.connect_timeout)));
  // emplace keeps what the connection string says.
  values.emplace("connect_timeout", absl::StrCat(std::max<int64_t>(seconds, 2)));
  values.emplace("target_session_attrs", "read-write");
  values.emplace("keepalives", "1");
  values.emplace("keepalives_idle", "5");
  values.emplace("keepalives_interval", "2");
  values.emplace("keepalives_count", "3");
  values.emplace(
      "tcp_user_timeout",
      absl::StrCat(absl::ToInt64Milliseconds(options.statement_timeout + options.commit_timeout)));
  values.emplace("client_encoding", "UTF8");
  values.emplace("fallback_application_name", "idempotencyd");
  ConnectParams params;
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

absl::StatusOr<DatabaseIdentity> CheckFitness(const PGresult* checked) {
  RETURN_IF_ERROR(CheckShape(
      checked, {PgType::kInt4, PgType::kBool, PgType::kBool, PgType::kInt8, PgType::kInt8}));
  if (PQntuples(checked) != 1) return absl::InternalError("check: no row");
  RowReader row(checked, 0);
  const int32_t version = row.Int4();
  const bool is_read_only = row.Bool();
  const bool forgets_commits = row.Bool();
  DatabaseIdentity identity;
  identity.system_identifier = static_cast<uint64_t>(row.Int8());
  identity.timeline = static_cast<uint32_t>(row.Int8());
  RETURN_IF_ERROR(row.status());
  if (version < kOldestSchema || version > kNewestSchema) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the database's schema has version %d; this server works with versions %d "
                        "to %d",
                        version, kOldestSchema, kNewestSchema));
  }
  if (is_read_only) return absl::UnavailableError("the database takes no writes");
  if (forgets_commits) {
    return absl::UnavailableError(
        "synchronous_commit is off for this role or database: a crash would lose answers already "
        "given");
  }
  return identity;
}

bool WasRolledBack(const PGresult* commit) {
  return absl::string_view(PQcmdStatus(const_cast<PGresult*>(commit))) == "ROLLBACK";
}

Connection::Connection(const ConnectionOptions& options, PGconn* connection)
    : options_(options), connection_(connection) {
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

Connection::OpenOutcome Connection::Open(const ConnectionOptions& options) {
  const absl::StatusOr<ConnectParams> params = ConnectParams::Make(options);
  if (!params.ok()) {
    return {nullptr, PipelineFailure{Effect::kNotSent, ErrorKind::kUnavailable,
                                     std::string(params.status().message())}};
  }
  // The blocking call: at the end of connect_timeout it goes on to the next host, which
  // PQconnectPoll cannot be told to do.
  PGconn* raw = PQconnectdbParams(params->Keywords().data(), params->Values().data(), 0);
  IDEM_CHECK(raw != nullptr) << "out of memory";
  std::unique_ptr<Connection> connection(new Connection(options, raw));
  if (PQstatus(raw) != CONNECTION_OK) {
    return {nullptr, PipelineFailure{Effect::kNotSent, ErrorKind::kUnavailable,
                                     absl::StrCat("connect: ", OneLine(PQerrorMessage(raw)))}};
  }
  if (std::optional<PipelineFailure> failure = connection->SetUp()) {
    failure->effect = Effect::kNotSent;
    if (failure->kind != ErrorKind::kSchema) failure->kind = ErrorKind::kUnavailable;
    failure->message = absl::StrCat("setting up a connection: ", failure->message);
    return {nullptr, std::move(failure)};
  }
  return {std::move(connection), std::nullopt};
}

std::optional<PipelineFailure> Connection::SetUp() {
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1) {
    return Lost("entering pipeline mode");
  }
  const absl::Duration all = options_.statement_timeout + options_.commit_timeout;
  const std::string lock_timeout = Millis(options_.lock_timeout);
  const std::string timeout = Millis(all);
  const char* settings[] = {lock_timeout.c_str(), timeout.c_str(), timeout.c_str()};
  if (PQsendQueryParams(connection_.get(), QueryText(Query::kSession), 3, nullptr, settings,
                        nullptr, nullptr, 1) != 1 ||
      PQsendQueryParams(connection_.get(), QueryText(Query::kCheck), 0, nullptr, nullptr, nullptr,
                        nullptr, 1) != 1) {
    return Lost("sending the session's settings");
  }
  PipelineOutcome checked = Finish(2, false);
  if (checked.failure.has_value() && checked.failure->kind == ErrorKind::kSchema) {
    checked.failure->message = absl::StrFormat(
        "the database has no schema of this service; this server works with versions %d to %d",
        kOldestSchema, kNewestSchema);
  }
  if (checked.failure.has_value()) return std::move(checked.failure);
  const absl::StatusOr<DatabaseIdentity> fit = CheckFitness(checked.results[1].get());
  if (!fit.ok()) {
    return PipelineFailure{
        Effect::kRejected,
        absl::IsFailedPrecondition(fit.status()) ? ErrorKind::kSchema : ErrorKind::kUnavailable,
        std::string(fit.status().message())};
  }
  identity_ = *fit;
  for (const Query query : kPrepared) {
    if (PQsendPrepare(connection_.get(), QueryName(query), QueryText(query), 0, nullptr) != 1) {
      return Lost("sending statements to prepare");
    }
  }
  return Finish(std::size(kPrepared), false).failure;
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

PipelineOutcome Connection::Run(absl::Span<const Statement> statements) {
  IDEM_CHECK(usable_) << "a connection that failed was used again";
  in_doubt_ = false;
  if (IsClosedByServer()) {
    PipelineFailure failure = Lost("while idle");
    failure.effect = Effect::kNotSent;
    return {std::move(failure), {}};
  }
  bool ends_in_commit = false;
  for (const Statement& statement : statements) {
    if (!SendPrepared(statement)) return {Lost("sending"), {}};
    ends_in_commit = statement.query == Query::kTransactionCommit;
  }
  PipelineOutcome outcome = Finish(statements.size(), ends_in_commit);
  if (outcome.failure.has_value() && usable_) {
    if (outcome.failure->kind == ErrorKind::kLost) {
      outcome.failure->effect = Effect::kLost;
      usable_ = false;
    } else {
      RollBack();
    }
  }
  return outcome;
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

PipelineOutcome Connection::Finish(size_t expected, bool ends_in_commit) {
  if (PQpipelineSync(connection_.get()) != 1) return {Lost("sending"), {}};
  PipelineOutcome outcome;
  size_t ended = 0;  // statements whose results were read to the end
  absl::Duration deadline = Now() + options_.statement_timeout;
  for (;;) {
    PgResult result;
    if (!NextResult(deadline, &result)) return {Lost("waiting for the answer"), {}};
    if (result == nullptr) {
      if (++ended == expected) deadline = Now() + options_.commit_timeout;
      if (ended > expected + 1) return {Lost("after results that nobody asked for"), {}};
      continue;
    }
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_PIPELINE_SYNC) break;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      outcome.results.push_back(std::move(result));
    } else if (status == PGRES_FATAL_ERROR && !outcome.failure.has_value()) {
      outcome.failure =
          PipelineFailure{Effect::kRejected, KindOfSqlState(Field(result.get(), PG_DIAG_SQLSTATE)),
                          SafeMessage(result.get())};
    }
  }
  if (outcome.failure.has_value()) return {std::move(outcome.failure), {}};
  if (in_doubt_) return {Lost("after a WARNING that the commit was not waited for"), {}};
  if (outcome.results.size() != expected) return {Lost("after too few results"), {}};
  if (ends_in_commit && WasRolledBack(outcome.results.back().get())) {
    return {
        PipelineFailure{Effect::kRejected, ErrorKind::kRunAgain, "COMMIT was answered by ROLLBACK"},
        {}};
  }
  return outcome;
}

bool Connection::NextResult(absl::Duration deadline, PgResult* result) {
  for (;;) {
    const int unsent = PQflush(connection_.get());
    if (unsent < 0) return false;
    if (unsent == 0 && PQisBusy(connection_.get()) == 0) break;
    if (!Await(deadline)) return false;
  }
  result->reset(PQgetResult(connection_.get()));
  // libpq makes up an error result for a connection that has ended.
  return PQstatus(connection_.get()) == CONNECTION_OK;
}

bool Connection::Await(absl::Duration deadline) {
  const absl::Duration left = deadline - Now();
  if (left <= absl::ZeroDuration()) {
    is_late_ = true;
    return false;
  }
  pollfd socket = {PQsocket(connection_.get()), POLLIN, 0};
  if (PQflush(connection_.get()) == 1) socket.events |= POLLOUT;
  const auto timeout =
      static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  const int ready = poll(&socket, 1, timeout);
  if (ready < 0 && errno != EINTR) return false;
  if (ready <= 0) return true;  // the caller comes back, and the deadline is tested again
  if ((socket.revents & (POLLIN | POLLERR | POLLHUP)) == 0) return true;
  return PQconsumeInput(connection_.get()) == 1;
}

void Connection::RollBack() {
  if (PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
  if (!SendPrepared({Query::kTransactionRollback, {}}) || Finish(1, false).failure.has_value()) {
    usable_ = false;
  }
}

PipelineFailure Connection::Lost(absl::string_view doing) {
  usable_ = false;
  const std::string reason =
      is_late_ ? "a timer fired" : OneLine(PQerrorMessage(connection_.get()));
  return {Effect::kLost, ErrorKind::kLost, absl::StrCat("connection lost ", doing, ": ", reason)};
}

}  // namespace idempotency
