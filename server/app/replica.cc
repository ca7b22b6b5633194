#include "server/app/replica.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/record/limit.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/sql.h"

namespace idempotency {
namespace {

// For payloads over 64 KiB only. Guessed: a worker canonicalises tens of MiB a second, so that more
// would wait longer than a caller does.
constexpr int kWorkers = 2;
constexpr size_t kMaxQueuedPayloads = 32;
// Of whole messages as they are held, which may be four times their payload's bound and more.
constexpr size_t kMaxQueuedPayloadBytes = 32 * kMiB;
// Every call has been answered by then; this is for the answers' way out.
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);

// What is promised when nothing is said.
constexpr char kLocalProfile[] = "local";
// With kOpsAuto: the address, and what is taken in its place when another process has it.
constexpr char kUsualOpsAddress[] = "127.0.0.1:9464";
constexpr char kAnyOpsAddress[] = "127.0.0.1:0";

absl::StatusOr<std::unique_ptr<OpsServer>> StartOps(const std::string& listen,
                                                    const std::vector<EffectiveSetting>& effective,
                                                    Metrics* metrics, Readiness* readiness) {
  OpsOptions options;
  options.address = listen == kOpsAuto ? kUsualOpsAddress : listen;
  options.build = {std::string(Version()), std::string(Commit())};
  options.oldest_schema = kOldestSchema;
  options.newest_schema = kNewestSchema;
  for (const EffectiveSetting& setting : effective) {
    options.settings.push_back({setting.name, setting.value, setting.source});
  }
  auto started = OpsServer::Start(options, metrics, readiness);
  if (listen == kOpsAuto && absl::IsUnavailable(started.status())) {
    options.address = kAnyOpsAddress;
    started = OpsServer::Start(options, metrics, readiness);
  }
  if (started.ok()) return started;
  return absl::Status(started.status().code(),
                      absl::StrCat("ops.listen: ", started.status().message()));
}

}  // namespace

StoreFactory MakeStores(const Settings& settings, Metrics* metrics) {
  PostgresStoreOptions options;
  options.conninfo = settings.database_url;
  options.policy = settings.engine.policy;
  options.durability =
      settings.durability == "replicated" ? Durability::kReplicated : Durability::kLocal;
  options.connect_timeout = settings.store.connect;
  options.statement_timeout = settings.store.statement;
  options.commit_timeout = settings.store.commit;
  options.max_answer_bytes = static_cast<int64_t>(settings.engine.batch_max_answer_bytes);
  return MakePostgresStoreFactory(std::move(options), metrics);
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Start(
    const Settings& settings, const StoreFactory& stores, Metrics* metrics, Log* log,
    const std::vector<EffectiveSetting>& effective) {
  std::unique_ptr<Replica> replica(new Replica(settings, stores, metrics, log));
  replica->clock_watch_ =
      std::make_unique<ClockWatch>(stores(), settings.engine.policy, SystemClock(), metrics, log);
  replica->clock_watch_->Start();
  if (settings.ops_listen != kOpsOff) {
    ASSIGN_OR_RETURN(replica->ops_,
                     StartOps(settings.ops_listen, effective, metrics, &replica->readiness_));
    log->Info("ops_listening",
              {{"address", replica->ops_->address()}, {"port", replica->ops_->port()}});
  }
  ASSIGN_OR_RETURN(replica->server_, Server::Start(settings.listen, &replica->service_));
  Server* const server = replica->server_.get();
  Readiness* const readiness = &replica->readiness_;
  const std::string profile = settings.durability.empty() ? kLocalProfile : settings.durability;
  std::unique_ptr<Store> checked = stores();
  const auto after_check = [server, readiness, profile, engine = replica->engine_.get(),
                            store = checked.get()](const absl::Status& found) {
    // A replica that answers from memory alone would otherwise not see a promotion.
    if (const auto identity = store->Identity()) engine->ObserveDatabase(*identity);
    server->SetServing(found.ok());
    readiness->SetChecked(PartsOf(found, profile));
  };
  replica->health_ = std::make_unique<HealthLoop>(std::move(checked), after_check, log);
  replica->health_->Start();
  log->Info("listening", {{"address", server->address()}, {"port", server->port()}});
  return replica;
}

Replica::Replica(const Settings& settings, const StoreFactory& stores, Metrics* metrics, Log* log)
    : log_(log),
      events_(log),
      engine_(MakeEngine(settings.engine, stores, SystemClock(), metrics, &events_)),
      readiness_(SystemClock()),
      merchants_(settings.merchants, metrics),
      answers_(settings.answer_max_bytes, metrics),
      workers_(kWorkers, kMaxQueuedPayloads, kMaxQueuedPayloadBytes, metrics),
      calls_(log, SystemClock()),
      service_(settings.bounds, settings.engine.policy,
               ServiceParts{.engine = engine_.get(),
                            .authenticator = &authenticator_,
                            .merchants = &merchants_,
                            .answers = &answers_,
                            .workers = &workers_,
                            .log = &calls_,
                            .clock = SystemClock(),
                            .metrics = metrics}) {}

Replica::~Replica() { Stop(absl::ZeroDuration()); }

void Replica::Stop(absl::Duration drain_delay) {
  // Without a server nothing was started.
  if (is_stopped_ || server_ == nullptr) return;
  is_stopped_ = true;
  log_->Info("draining", {{"delay_ms", absl::ToInt64Milliseconds(drain_delay)}});
  readiness_.SetDraining();
  server_->StopServing();
  absl::SleepFor(drain_delay);
  engine_->Drain();
  server_->Shutdown(kShutdownGrace);
  health_.reset();
  clock_watch_.reset();
  calls_.FlushReplays();
  // Until here probes were told that this replica lives and drains.
  if (ops_ != nullptr) ops_->Stop();
  log_->Info("stopped");
}

}  // namespace idempotency
