#include "server/store/postgres/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"
#include "server/base/status_macros.h"

namespace idempotency {

using Effect = PipelineFailure::Effect;

namespace {

absl::StatusOr<Nodes> NodesOf(const ConnectionOptions& options) {
  ASSIGN_OR_RETURN(ConnectParams params, ConnectParams::Make(options));
  return Nodes(std::move(params));
}

}  // namespace

Session::Session(const ConnectionOptions& options, BackoffOptions backoff, Metrics* metrics,
                 Circuit* circuit, CircuitUse circuit_use)
    : options_(options),
      backoff_(backoff),
      metrics_(metrics),
      circuit_(circuit),
      circuit_use_(circuit_use),
      nodes_(NodesOf(options)),
      jitter_(std::random_device()()) {}

bool Session::IsCutOff() const {
  return circuit_ != nullptr && circuit_use_ == CircuitUse::kObey && circuit_->IsOpen();
}

void Session::GiveConnection(std::unique_ptr<Connection> connection) {
  connection_ = std::move(connection);
  identity_ = connection_->identity();
}

void Session::Shun(std::vector<std::string> node_names) {
  if (nodes_.ok()) nodes_->Shun(std::move(node_names));
}

absl::Duration Session::BackoffLeft() const {
  if (connection_ != nullptr) return absl::ZeroDuration();
  return std::max(no_connect_before_ - SystemClock()->BootTime(), absl::ZeroDuration());
}

void Session::BackOff() {
  backoff_now_ = std::clamp(2 * backoff_now_, backoff_.first, backoff_.longest);
  // Between half and all of it, so that many lanes do not come back together.
  std::uniform_real_distribution<double> part(0.5, 1.0);
  no_connect_before_ = SystemClock()->BootTime() + part(jitter_) * backoff_now_;
}

std::optional<PipelineFailure> Session::Connect() {
  if (BackoffLeft() > absl::ZeroDuration()) {
    PipelineFailure failure = {Effect::kNotSent, last_failure_.kind,
                               absl::StrCat("not connecting yet after: ", last_failure_.message)};
    failure.unfit = last_failure_.unfit;
    return failure;
  }
  if (!nodes_.ok()) {
    return PipelineFailure{Effect::kNotSent, ErrorKind::kUnavailable,
                           std::string(nodes_.status().message())};
  }
  const bool obeys = circuit_use_ == CircuitUse::kObey;
  Connection::OpenOutcome opened = Connection::Open(options_, &*nodes_, obeys ? circuit_ : nullptr);
  if (opened.failure.has_value()) {
    last_failure_ = *opened.failure;
    if (last_failure_.opens_circuit && circuit_ != nullptr) circuit_->Open(last_failure_.message);
    BackOff();
    return std::move(opened.failure);
  }
  connection_ = std::move(opened.connection);
  identity_ = connection_->identity();
  metrics_->Add(Metric::kReconnects);
  return std::nullopt;
}

PipelineOutcome Session::Run(absl::Span<const Statement> statements, AnswersFrom answers) {
  for (bool is_second = connection_ == nullptr;; is_second = true) {
    if (IsCutOff()) {
      return {PipelineFailure{Effect::kNotSent, ErrorKind::kUnavailable,
                              absl::StrCat("not sent: ", circuit_->Reason())},
              {}};
    }
    if (connection_ == nullptr) {
      if (std::optional<PipelineFailure> failure = Connect()) return {std::move(failure), {}};
    }
    PipelineOutcome outcome = Judge(connection_->Run(statements, answers));
    const bool was_closed =
        outcome.failure.has_value() && outcome.failure->effect == Effect::kNotSent;
    if (!was_closed || is_second) return outcome;
  }
}

std::optional<PipelineOutcome> Session::RunWithin(absl::Span<const Statement> statements,
                                                  AnswersFrom answers, absl::Duration patience) {
  if (connection_ == nullptr) {
    if (std::optional<PipelineFailure> failure = Connect()) {
      return PipelineOutcome{std::move(failure), {}};
    }
  }
  std::optional<PipelineOutcome> outcome = connection_->RunWithin(statements, answers, patience);
  if (!outcome.has_value()) return std::nullopt;
  return Judge(*std::move(outcome));
}

PipelineOutcome Session::Continue(absl::Span<const Statement> statements, AnswersFrom answers) {
  if (connection_ == nullptr) {
    // Not sent: the server ends the transaction with its connection.
    return {
        PipelineFailure{Effect::kNotSent, ErrorKind::kLost, "the transaction's connection ended"},
        {}};
  }
  return Judge(connection_->Run(statements, answers));
}

std::optional<PipelineFailure> Session::EndUnwritten() {
  if (options_.durability == Durability::kReplicated) {
    return Continue({{Query::kTransactionCommit, {}}}, AnswersFrom::kWhatItFound).failure;
  }
  Continue({{Query::kTransactionRollback, {}}}, AnswersFrom::kNothing);
  return std::nullopt;
}

PipelineOutcome Session::Judge(PipelineOutcome outcome) {
  if (!outcome.failure.has_value()) {
    backoff_now_ = absl::ZeroDuration();
    return outcome;
  }
  const ErrorKind kind = outcome.failure->kind;
  if (outcome.failure->opens_circuit) {
    if (circuit_ != nullptr) circuit_->Open(outcome.failure->message);
    // A primary that was left behind takes connections and answers no commit for ever.
    if (nodes_.ok()) nodes_->PassOver(connection_->node());
  }
  if (outcome.failure->leaves_commit) metrics_->Add(Metric::kCommitTimedOut);
  if (kind == ErrorKind::kUnavailable || kind == ErrorKind::kSchema) {
    last_failure_ = *outcome.failure;
    BackOff();
  }
  // A schema that changed, statements that are gone, a node that refuses: all are looked at anew
  // with a connection that is set up anew.
  if (!connection_->IsUsable() || kind == ErrorKind::kUnavailable || kind == ErrorKind::kSchema ||
      kind == ErrorKind::kPrepareAgain) {
    connection_.reset();
  }
  return outcome;
}

}  // namespace idempotency
