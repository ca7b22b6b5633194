#include "server/store/postgres/probe.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"
#include "server/base/status_macros.h"
#include "server/record/fault.h"
#include "server/store/postgres/maintenance.h"

namespace idempotency {
namespace {

// How long one check waits for the standby.
constexpr absl::Duration kPatience = absl::Seconds(1);
// After the settings were wrong: PostgreSQL's checkpointer tells all sessions a little later than a
// session sees it that there are standbys to wait for.
constexpr absl::Duration kSettled = absl::Seconds(1);

absl::Duration Now() { return SystemClock()->BootTime(); }

}  // namespace

Probe::Probe(const ConnectionOptions& options, BackoffOptions backoff, Circuit* circuit,
             Metrics* metrics)
    : options_(options),
      circuit_(circuit),
      session_(options, backoff, metrics, circuit, CircuitUse::kIgnore) {}

absl::Status Probe::Check() {
  if (!waiting_.empty()) HearWaiting();
  const uint64_t openings = circuit_->Openings();
  const absl::Status fits = CheckDatabase(session_);
  if (!fits.ok()) return waiting_.empty() ? fits : NotConfirmed();
  const absl::Duration since = Now();
  const std::optional<PipelineOutcome> outcome = session_.RunWithin(
      {}, AnswersFrom::kWhatItFound, std::min(kPatience, options_.commit_timeout));
  if (!outcome.has_value()) {
    KeepWaiting(since);
    return NotConfirmed();
  }
  if (outcome->failure.has_value() && !outcome->failure->unfit.empty()) {
    return MakeFault(Fault::kNotDurable, outcome->failure->unfit);
  }
  if (outcome->failure.has_value()) {
    return MakeFault(Fault::kStoreUnavailable,
                     absl::StrCat("durability: ", outcome->failure->message));
  }
  const absl::Duration age = session_.connection().config_age();
  if (circuit_->IsOpen() && age >= absl::ZeroDuration() && age < kSettled) {
    return MakeFault(Fault::kNotDurable, "the database's configuration was loaded just now");
  }
  // On the nodes where commits still wait, nobody is to be waited for any more.
  waiting_.clear();
  session_.Shun({});
  circuit_->CloseUnlessOpenedSince(openings);
  return absl::OkStatus();
}

void Probe::HearWaiting() {
  const absl::Duration until = Now() + std::min(kPatience, options_.commit_timeout);
  std::vector<Waiting> still;
  for (Waiting& each : waiting_) {
    const std::optional<PipelineOutcome> outcome =
        each.connection->Resume(std::max(until - Now(), absl::ZeroDuration()));
    if (!outcome.has_value()) {
      still.push_back(std::move(each));
    } else if (each.connection->IsUsable()) {
      session_.GiveConnection(std::move(each.connection));
    }
  }
  waiting_ = std::move(still);
  std::vector<std::string> names;
  for (const Waiting& each : waiting_) names.push_back(each.connection->node().Name());
  session_.Shun(std::move(names));
}

void Probe::KeepWaiting(absl::Duration since) {
  waiting_.push_back({session_.TakeConnection(), since});
}

absl::Status Probe::NotConfirmed() {
  const std::string message = "no standby confirms commits";
  const bool is_over_due = std::any_of(
      waiting_.begin(), waiting_.end(),
      [this](const Waiting& each) { return Now() - each.since >= options_.commit_timeout; });
  if (is_over_due && !circuit_->IsOpen()) circuit_->Open(message);
  return MakeFault(Fault::kNotDurable, message);
}

}  // namespace idempotency
