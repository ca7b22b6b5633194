#include "server/app/setting_table.h"

#include <utility>

#include "server/app/address.h"
#include "server/record/limit.h"
#include "server/store/postgres/conninfo.h"

namespace idempotency {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);

absl::Status CheckOpsAddress(absl::string_view text) {
  if (text == kOpsAuto || text == kOpsOff || CheckAddress(text).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("must be host:port such as 0.0.0.0:9464, auto, or off");
}

void AddProcessSettings(Settings* settings, std::vector<SettingRow>* table) {
  table->push_back(Text(kConfigSetting, &settings->config_file,
                        "path of a configuration file in TOML, 1 MiB at most"));
  table->back().commands = kServingCommands | kMigrateCommand | kHealthcheckCommand;
  table->back().in_file = false;

  table->push_back(
      Text(kListenSetting, &settings->listen, "host:port to listen on; port 0 is a free one"));
  table->back().check = CheckAddress;
  table->back().commands = kServingCommands | kHealthcheckCommand;

  table->push_back(Text("ops.listen", &settings->ops_listen,
                        "host:port of probes and metrics, port 0 is a free one, or off; auto is "
                        "127.0.0.1:9464, or a free port while another process has that. On "
                        "Kubernetes: 0.0.0.0:9464. It is plain HTTP and shows settings: keep it "
                        "inside"));
  table->back().check = CheckOpsAddress;

  SettingRow url =
      Text(kDatabaseUrlSetting, &settings->database_url,
           "PostgreSQL, as libpq's URI or keyword=value pairs; several hosts may be named. Not "
           "set: libpq's own variables (PGHOST, PGSERVICE …) name it. Keep a password out of the "
           "command line: use the variable, a file, or libpq's passfile");
  url.check = CheckConninfo;
  url.is_secret = true;
  url.mask = MaskedConninfo;
  url.commands = kServeCommand | kMigrateCommand;
  const SettingRow url_file = SecretFile(url);
  table->push_back(std::move(url));
  table->push_back(url_file);

  table->push_back(Text("durability", &settings->durability,
                        "required: what an answer has waited for; local: the primary's own disk; "
                        "replicated: a synchronous standby's as well"));
  table->back().choices = {"local", "replicated"};
  table->back().commands = kServeCommand;
  table->push_back(Toggle("insecure", &settings->insecure,
                          "required in this version: without authentication and encryption"));
  table->back().commands = kServeCommand;

  SettingRow level;
  level.name = "log.level";
  level.meaning =
      "ordinary log lines below it are left out; takeovers, conflicts and the like "
      "are always written";
  level.level = &settings->log_level;
  table->push_back(std::move(level));
  table->push_back(Span("drain.delay", &settings->drain_delay, absl::ZeroDuration(),
                        absl::Minutes(10),
                        "at shutdown, from NOT_SERVING to refusing calls: as long as load "
                        "balancers take to notice"));
}

void AddStoreSettings(Settings* settings, std::vector<SettingRow>* table) {
  StoreTimers& timers = settings->store;
  const auto add = [&](std::string name, absl::Duration* value, std::string meaning) {
    table->push_back(Span(std::move(name), value, absl::Milliseconds(100), absl::Minutes(1),
                          std::move(meaning)));
  };
  add("store.connect_timeout", &timers.connect,
      "how long each host and address of the database is tried; a connect_timeout in database.url "
      "goes before");
  add("store.statement_timeout", &timers.statement,
      "how long the results of a batch's statements are waited for before the connection is given "
      "up");
  add("store.commit_timeout", &timers.commit,
      "and then its commit, a standby's confirmation included; with durability replicated one that "
      "takes longer makes calls be refused at once until a standby confirms commits again");
}

void AddRecordSettings(Settings* settings, std::vector<SettingRow>* table) {
  RequestBounds& bounds = settings->bounds;
  Policy& policy = settings->engine.policy;
  const auto add_ttl = [&](std::string name, absl::Duration* value, std::string meaning) {
    table->push_back(Span(std::move(name), value, absl::Minutes(1), 30 * kDay, std::move(meaning)));
    table->back().unit = absl::Seconds(1);
  };
  add_ttl("ttl.min", &bounds.ttl.shortest, "shortest ttl a Begin may ask for");
  add_ttl("ttl.default", &bounds.ttl.standard, "ttl of a Begin that names none");
  add_ttl("ttl.max", &bounds.ttl.longest, "longest ttl a Begin may ask for");
  const auto add_lease = [&](std::string name, absl::Duration* value, std::string meaning) {
    table->push_back(
        Span(std::move(name), value, absl::Seconds(1), absl::Hours(1), std::move(meaning)));
  };
  add_lease("lease.min_duration", &bounds.lease.shortest, "shortest lease");
  add_lease("lease.default_duration", &bounds.lease.standard, "lease of a call that names none");
  add_lease("lease.max_duration", &bounds.lease.longest, "longest lease");
  table->push_back(Size("outcome.max_body_bytes", &bounds.max_outcome_body_bytes, 0,
                        kMaxOutcomeBodyBytes, "longest body of an outcome"));
  table->push_back(Span("skew_margin", &policy.skew_margin, kShortestSkewMargin, absl::Minutes(1),
                        "added to leases and retention before they count as over"));
  table->push_back(Span("replay_window", &policy.replay_window, absl::Minutes(10), 30 * kDay,
                        "how long a record answers after it was finished, whatever its ttl"));
  table->push_back(Span("takeover_window", &policy.takeover_window, absl::Minutes(1), 30 * kDay,
                        "from a record's first Begin; after it nobody takes over an attempt that "
                        "ended unknown. Stay below what partners remember"));
}

void AddEngineSettings(Settings* settings, std::vector<SettingRow>* table) {
  EngineOptions& engine = settings->engine;
  table->push_back(Number("lanes", &engine.lanes, 1, 64,
                          "threads that write, each with a connection of its own"));
  constexpr int64_t kMega = kMiB;
  table->push_back(Size("batch.max_items", &engine.batch_max_items, 1, 4096, "calls in one batch"));
  table->push_back(Size("batch.max_bytes", &engine.batch_max_bytes, 2 * kMega, 64 * kMega,
                        "bytes in one batch"));
  table->push_back(Size("batch.max_answer_bytes", &engine.batch_max_answer_bytes, 1, 256 * kMega,
                        "bytes of recorded answers that one batch reads, and one row more; the "
                        "rest of it is left to the next one"));
  table->push_back(Size("queue.max_items", &engine.queue_max_items, 64, 1'000'000,
                        "calls queued, over all lanes; past it OVERLOADED"));
  table->push_back(Size("queue.max_bytes", &engine.queue_max_bytes, 8 * kMega, 1024 * kMega,
                        "bytes queued, over all lanes; past it OVERLOADED"));
  table->push_back(Size("calls_in_flight.max", &engine.calls_in_flight_max, 64, 1'000'000,
                        "calls accepted and not answered; past it OVERLOADED"));
  table->push_back(Size("waits.max", &engine.waits_max, 0, 500'000,
                        "Begins that wait for another's outcome; past it in_progress at once"));
  table->push_back(Size("waits.per_merchant_max", &engine.waits_per_merchant_max, 0, 500'000,
                        "Begins of one merchant that wait; past it in_progress at once"));
  table->push_back(Size("waits.per_key_max", &engine.waits_per_key_max, 0, 500'000,
                        "Begins that wait for the outcome of one key; past it in_progress at "
                        "once"));
  table->push_back(Size("cache.max_bytes", &engine.cache_max_bytes, 0, 16 * 1024 * kMega,
                        "final records kept in memory for their replays; 0: none"));
  table->push_back(Span("cache.max_age", &engine.cache_max_age, absl::Seconds(1), absl::Minutes(5),
                        "how long one of those answers before it is read again; what is deleted "
                        "by hand is replayed for that long at the most"));
}

void AddAnswerSettings(Settings* settings, std::vector<SettingRow>* table) {
  constexpr int64_t kMega = kMiB;
  // The largest answer fits into half of it: a body of 1 MiB and, beside it, tens of KiB.
  table->push_back(Size("answer.max_bytes", &settings->answer_max_bytes, 4 * kMega, 1024 * kMega,
                        "bytes of answers that callers have not taken yet, of which a merchant "
                        "may hold as much as stays free; past it replays, in_progress and Lookups "
                        "are refused with OVERLOADED"));
}

void AddMerchantSettings(Settings* settings, std::vector<SettingRow>* table) {
  MerchantLimitOptions& merchants = settings->merchants;
  table->push_back(Size("merchant.max_rate", &merchants.max_rate, 0, 1'000'000,
                        "Begins and Lookups of one merchant in a second; past it "
                        "MERCHANT_RATE_LIMITED; 0: no bound"));
  table->push_back(Size("merchant.burst", &merchants.burst, 0, 1'000'000,
                        "how many of them may come at once after a pause; 0: as many as in a "
                        "second"));
  table->push_back(Size("merchant.max_calls_in_flight", &merchants.max_calls_in_flight, 0,
                        1'000'000,
                        "Begins and Lookups of one merchant that are not answered yet, waiting "
                        "ones included; past it MERCHANT_RATE_LIMITED; 0: no bound"));
}

void AddUpkeepSettings(Settings* settings, std::vector<SettingRow>* table) {
  EngineOptions& engine = settings->engine;
  table->push_back(Span("sweep.interval", &engine.sweep_interval, absl::Seconds(1), absl::Hours(1),
                        "between two searches for abandoned attempts"));
  table->push_back(Span("sweep.grace", &engine.sweep_grace, absl::ZeroDuration(), kDay,
                        "how long a lease has been over before its attempt is marked"));
  table->push_back(Span("purge.interval", &engine.purge_interval, absl::Seconds(1), kDay,
                        "between two deletions of expired records"));
  table->push_back(Span("purge.unsettled_after", &engine.purge_unsettled_after, 90 * kDay,
                        3650 * kDay,
                        "age at which records that were never settled are deleted, each with a "
                        "log line; never those with HOLD"));
  table->back().may_be_off = true;
}

void AddTestSettings(Settings* settings, std::vector<SettingRow>* table) {
  table->push_back(Toggle(kUnsafeTestBoundsSetting, &settings->unsafe_test_bounds,
                          "FOR TESTS ONLY: spans and numbers may be below their bounds, shorter "
                          "than is safe with money"));
  // It is not left behind in a file or an environment and forgotten.
  table->back().in_environment = false;
  table->back().in_file = false;
}

}  // namespace

std::vector<SettingRow> SettingTable(Settings* settings) {
  std::vector<SettingRow> table;
  AddProcessSettings(settings, &table);
  AddStoreSettings(settings, &table);
  AddRecordSettings(settings, &table);
  AddEngineSettings(settings, &table);
  AddAnswerSettings(settings, &table);
  AddMerchantSettings(settings, &table);
  AddUpkeepSettings(settings, &table);
  AddTestSettings(settings, &table);
  return table;
}

Settings DevDefaults() {
  Settings settings;
  // Nobody's load balancer watches a developer's machine, and a person reads what is printed.
  settings.drain_delay = absl::ZeroDuration();
  settings.log_level = LogLevel::kWarn;
  return settings;
}

}  // namespace idempotency
