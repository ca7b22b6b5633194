#include "server/app/tuning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);
// One of them is kept for Complete, Fail and Renew.
constexpr size_t kFewestItemsOfALane = 4;

Tunable Span(std::string name, absl::Duration* value, absl::Duration shortest,
             absl::Duration longest, std::string meaning) {
  Tunable tunable;
  tunable.name = std::move(name);
  tunable.meaning = std::move(meaning);
  tunable.span = value;
  tunable.shortest = shortest;
  tunable.longest = longest;
  return tunable;
}

Tunable Size(std::string name, size_t* value, int64_t lowest, int64_t highest,
             std::string meaning) {
  Tunable tunable;
  tunable.name = std::move(name);
  tunable.meaning = std::move(meaning);
  tunable.size = value;
  tunable.lowest = lowest;
  tunable.highest = highest;
  return tunable;
}

void AddRecordTunables(Settings* settings, std::vector<Tunable>* table) {
  RequestBounds& bounds = settings->bounds;
  Policy& policy = settings->engine.policy;
  const auto add_ttl = [&](std::string name, absl::Duration* value, std::string meaning) {
    table->push_back(Span(std::move(name), value, absl::Minutes(1), 30 * kDay, std::move(meaning)));
    table->back().unit = absl::Seconds(1);
  };
  add_ttl("ttl-min", &bounds.ttl.shortest, "shortest ttl a Begin may ask for");
  add_ttl("ttl-default", &bounds.ttl.standard, "ttl of a Begin that names none");
  add_ttl("ttl-max", &bounds.ttl.longest, "longest ttl a Begin may ask for");
  const auto add_lease = [&](std::string name, absl::Duration* value, std::string meaning) {
    table->push_back(
        Span(std::move(name), value, absl::Seconds(1), absl::Hours(1), std::move(meaning)));
  };
  add_lease("lease-min-duration", &bounds.lease.shortest, "shortest lease");
  add_lease("lease-default-duration", &bounds.lease.standard, "lease of a call that names none");
  add_lease("lease-max-duration", &bounds.lease.longest, "longest lease");
  table->push_back(Size("outcome-max-body-bytes", &bounds.max_outcome_body_bytes, 0,
                        kMaxOutcomeBodyBytes, "longest body of an outcome"));
  table->push_back(Span("skew-margin", &policy.skew_margin, absl::Milliseconds(500),
                        absl::Minutes(1),
                        "added to leases and retention before they count as over"));
  table->push_back(Span("replay-window", &policy.replay_window, absl::Minutes(10), 30 * kDay,
                        "how long a record answers after it was finished, whatever its ttl"));
  table->push_back(Span("takeover-window", &policy.takeover_window, absl::Minutes(1), 30 * kDay,
                        "from a record's first Begin; after it nobody takes over an attempt that "
                        "ended unknown. Stay below what partners remember"));
}

void AddEngineTunables(Settings* settings, std::vector<Tunable>* table) {
  EngineOptions& engine = settings->engine;
  Tunable lanes;
  lanes.name = "lanes";
  lanes.meaning = "threads that write, each with a connection of its own";
  lanes.number = &engine.lanes;
  lanes.lowest = 1;
  lanes.highest = 64;
  table->push_back(lanes);
  constexpr int64_t kMega = kMiB;
  table->push_back(Size("batch-max-items", &engine.batch_max_items, 1, 4096, "calls in one batch"));
  table->push_back(Size("batch-max-bytes", &engine.batch_max_bytes, 2 * kMega, 64 * kMega,
                        "bytes in one batch"));
  table->push_back(Size("queue-max-items", &engine.queue_max_items, 64, 1'000'000,
                        "calls queued, over all lanes; past it OVERLOADED"));
  table->push_back(Size("queue-max-bytes", &engine.queue_max_bytes, 8 * kMega, 1024 * kMega,
                        "bytes queued, over all lanes; past it OVERLOADED"));
  table->push_back(Size("calls-in-flight-max", &engine.calls_in_flight_max, 64, 1'000'000,
                        "calls accepted and not answered; past it OVERLOADED"));
  table->push_back(Size("waits-max", &engine.waits_max, 0, 500'000,
                        "Begins that wait for another's outcome; past it in_progress at once"));
  table->push_back(
      Size("waits-per-key-max", &engine.waits_per_key_max, 0, 500'000, "the same for one key"));
}

void AddUpkeepTunables(Settings* settings, std::vector<Tunable>* table) {
  EngineOptions& engine = settings->engine;
  table->push_back(Span("sweep-interval", &engine.sweep_interval, absl::Seconds(1), absl::Hours(1),
                        "between two searches for abandoned attempts"));
  table->push_back(Span("sweep-grace", &engine.sweep_grace, absl::ZeroDuration(), kDay,
                        "how long a lease has been over before its attempt is marked"));
  table->push_back(Span("purge-interval", &engine.purge_interval, absl::Seconds(1), kDay,
                        "between two deletions of expired records"));
  table->push_back(Span("purge-unsettled-after", &engine.purge_unsettled_after, 90 * kDay,
                        3650 * kDay,
                        "age at which records that were never settled are deleted, each with a "
                        "log line; never those with HOLD"));
  table->back().may_be_off = true;
  table->push_back(Span("drain-delay", &settings->drain_delay, absl::ZeroDuration(),
                        absl::Minutes(10),
                        "at shutdown, from NOT_SERVING to refusing calls: as long as load "
                        "balancers take to notice"));
}

absl::Status SetSpan(const Tunable& tunable, absl::string_view text, bool unsafe) {
  if (tunable.may_be_off && text == "off") {
    *tunable.span = absl::InfiniteDuration();
    return absl::OkStatus();
  }
  absl::Duration value;
  const bool is_span = absl::ParseDuration(text, &value) && value != absl::InfiniteDuration() &&
                       value != -absl::InfiniteDuration();
  const absl::Duration shortest =
      unsafe ? std::min(tunable.shortest, absl::Milliseconds(1)) : tunable.shortest;
  const absl::Duration unit = unsafe ? absl::Milliseconds(1) : tunable.unit;
  if (!is_span || value < shortest || value > tunable.longest ||
      absl::Trunc(value, unit) != value) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a span such as 90s, 15m or 24h: ", BoundsText(tunable)));
  }
  *tunable.span = value;
  return absl::OkStatus();
}

absl::Status SetNumber(const Tunable& tunable, absl::string_view text, bool unsafe) {
  int64_t value = 0;
  const int64_t lowest = unsafe ? std::min<int64_t>(tunable.lowest, 1) : tunable.lowest;
  if (!absl::SimpleAtoi(text, &value) || value < lowest || value > tunable.highest) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be a whole number: ", BoundsText(tunable)));
  }
  if (tunable.size != nullptr) {
    *tunable.size = static_cast<size_t>(value);
  } else {
    *tunable.number = static_cast<int>(value);
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(absl::string_view name, const DurationBounds& bounds,
                        absl::string_view suffix) {
  if (bounds.shortest <= bounds.standard && bounds.standard <= bounds.longest) {
    return absl::OkStatus();
  }
  const auto flag = [&](absl::string_view which) {
    return absl::StrCat("--", name, "-", which, suffix);
  };
  return absl::InvalidArgumentError(absl::StrCat(
      flag("min"), " must not be above ", flag("default"), ", nor that above ", flag("max")));
}

// A lane has its share of the queue, and of that a quarter is kept for Complete, Fail and Renew:
// the largest of them must fit, or it would be refused for ever while Begins fill the rest.
absl::Status CheckLaneShare(const Settings& settings) {
  const auto lanes = static_cast<size_t>(settings.engine.lanes);
  if (settings.engine.queue_max_items / lanes < kFewestItemsOfALane) {
    return absl::InvalidArgumentError(
        absl::StrCat("--queue-max-items must be at least ", kFewestItemsOfALane,
                     " for each of --lanes: ", kFewestItemsOfALane * lanes));
  }
  const size_t share = settings.engine.queue_max_bytes / lanes;
  const size_t largest = LargestOwnerCallBytes(settings.bounds.max_outcome_body_bytes);
  if (share - LimitOf(Room::kShared, share) < largest) {
    return absl::InvalidArgumentError(
        absl::StrCat("--queue-max-bytes must be at least four times the largest Complete for each "
                     "of --lanes, with --outcome-max-body-bytes as it is: ",
                     4 * largest * lanes));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Tunable> Tunables(Settings* settings) {
  std::vector<Tunable> table;
  AddRecordTunables(settings, &table);
  AddEngineTunables(settings, &table);
  AddUpkeepTunables(settings, &table);
  return table;
}

std::string ValueText(const Tunable& tunable) {
  if (tunable.size != nullptr) return absl::StrCat(*tunable.size);
  if (tunable.number != nullptr) return absl::StrCat(*tunable.number);
  if (*tunable.span == absl::InfiniteDuration()) return "off";
  return absl::FormatDuration(*tunable.span);
}

std::string BoundsText(const Tunable& tunable) {
  if (tunable.span == nullptr) return absl::StrCat(tunable.lowest, " to ", tunable.highest);
  return absl::StrCat(absl::FormatDuration(tunable.shortest), " to ",
                      absl::FormatDuration(tunable.longest), tunable.may_be_off ? ", or off" : "");
}

absl::Status SetFromText(const Tunable& tunable, absl::string_view text, bool unsafe) {
  return tunable.span != nullptr ? SetSpan(tunable, text, unsafe)
                                 : SetNumber(tunable, text, unsafe);
}

absl::Status CheckTogether(const Settings& settings) {
  absl::Status status = CheckOrder("ttl", settings.bounds.ttl, "");
  if (status.ok()) status = CheckOrder("lease", settings.bounds.lease, "-duration");
  if (status.ok() && settings.engine.waits_max > settings.engine.calls_in_flight_max / 2) {
    status =
        absl::InvalidArgumentError("--waits-max must be at most half of --calls-in-flight-max");
  }
  if (status.ok()) status = CheckLaneShare(settings);
  return status;
}

}  // namespace idempotency
