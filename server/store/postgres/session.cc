#include "server/store/postgres/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"

namespace idempotency {

using Effect = PipelineFailure::Effect;

Session::Session(ConnectionOptions options, BackoffOptions backoff, Metrics* metrics)
    : options_(std::move(options)),
      backoff_(backoff),
      metrics_(metrics),
      jitter_(std::random_device()()) {}

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
    return PipelineFailure{Effect::kNotSent, last_failure_.kind,
                           absl::StrCat("not connecting yet after: ", last_failure_.message)};
  }
  Connection::OpenOutcome opened = Connection::Open(options_);
  if (opened.failure.has_value()) {
    last_failure_ = *opened.failure;
    BackOff();
    return std::move(opened.failure);
  }
  connection_ = std::move(opened.connection);
  identity_ = connection_->identity();
  metrics_->Add(Metric::kReconnects);
  return std::nullopt;
}

PipelineOutcome Session::Run(absl::Span<const Statement> statements) {
  for (bool is_second = connection_ == nullptr;; is_second = true) {
    if (connection_ == nullptr) {
      if (std::optional<PipelineFailure> failure = Connect()) return {std::move(failure), {}};
    }
    PipelineOutcome outcome = Judge(connection_->Run(statements));
    const bool was_closed =
        outcome.failure.has_value() && outcome.failure->effect == Effect::kNotSent;
    if (!was_closed || is_second) return outcome;
  }
}

PipelineOutcome Session::Continue(absl::Span<const Statement> statements) {
  if (connection_ == nullptr) {
    // Not sent: the server ends the transaction with its connection.
    return {
        PipelineFailure{Effect::kNotSent, ErrorKind::kLost, "the transaction's connection ended"},
        {}};
  }
  return Judge(connection_->Run(statements));
}

PipelineOutcome Session::Judge(PipelineOutcome outcome) {
  if (!outcome.failure.has_value()) {
    backoff_now_ = absl::ZeroDuration();
    return outcome;
  }
  const ErrorKind kind = outcome.failure->kind;
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
