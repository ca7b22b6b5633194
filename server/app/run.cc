#include "server/app/run.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/app/config_docs.h"
#include "server/app/dev_lines.h"
#include "server/app/healthcheck.h"
#include "server/app/output.h"
#include "server/app/private_postgres.h"
#include "server/app/replica.h"
#include "server/app/scheduling.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/record/record_id.h"
#include "server/store/postgres/migrate.h"

namespace idempotency {
namespace {

// The settings that somebody has set, a line each: what an operator needs beside the defaults.
void LogSettings(const std::vector<EffectiveSetting>& effective, Log* log) {
  for (const EffectiveSetting& setting : effective) {
    if (setting.source == kDefaultSource) continue;
    log->Info("setting",
              {{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
}

// The address asked for; if nobody asked for one and the usual one is taken, a free port.
absl::StatusOr<std::unique_ptr<Replica>> StartDevReplica(
    Settings settings, const std::vector<EffectiveSetting>& effective, const DevSettings& dev,
    Metrics* metrics, Log* log) {
  const StoreFactory stores = MakeStores(settings, metrics);
  absl::StatusOr<std::unique_ptr<Replica>> replica =
      Replica::Start(settings, stores, metrics, log, effective);
  if (replica.ok() || dev.is_listen_given || !absl::IsUnavailable(replica.status())) {
    return replica;
  }
  settings.listen = "127.0.0.1:0";
  return Replica::Start(settings, stores, metrics, log, effective);
}

void PrintDevLines(const Replica& replica, const PrivatePostgres& postgres, bool ephemeral) {
  std::cout << "\nidempotencyd is listening on " << replica.address()
            << ", for this machine only and without authentication.\n"
            << (ephemeral ? "Its data is gone when it stops" : "Its data stays in ")
            << (ephemeral ? "" : postgres.directory()) << ". Stop it with Ctrl-C.\n";
  if (!replica.ops_address().empty()) {
    std::cout << "Probes and metrics: http://" << replica.ops_address() << "/\n";
  }
  std::cout << "\nIn another terminal, line by line:\n";
  // Set by ./dev when the only grpcurl is the one that it installed in the clone.
  if (const char* const grpcurl = std::getenv("IDEMPOTENCY_GRPCURL"); grpcurl != nullptr) {
    const std::string directory = std::filesystem::path(grpcurl).parent_path().string();
    std::cout << "\n# 0. Your shell has no grpcurl of its own.\nexport PATH=\"" << directory
              << ":$PATH\"\n";
  }
  int number = 0;
  for (const DevLine& line : DevLines(replica.address(), RandomUuidText().substr(0, 8))) {
    std::cout << "\n# " << ++number << ". " << line.explanation << "\n" << line.command << "\n";
  }
  std::cout << std::endl;
}

absl::Status ServeDev(Settings settings, const std::vector<EffectiveSetting>& effective,
                      const DevSettings& dev, PrivatePostgres& postgres, StopSignal* stop,
                      Metrics* metrics, Log* log) {
  settings.database_url = postgres.ConnectionString();
  RETURN_IF_ERROR(Migrate(settings.database_url));
  ScheduleAsBatch(log);
  ASSIGN_OR_RETURN(std::unique_ptr<Replica> replica,
                   StartDevReplica(settings, effective, dev, metrics, log));
  if (!stop->Arrived()) PrintDevLines(*replica, postgres, dev.ephemeral);
  stop->Wait();
  replica->Stop(settings.drain_delay);
  return absl::OkStatus();
}

}  // namespace

ExitCode RunServe(const Settings& settings, const std::vector<EffectiveSetting>& effective,
                  StopSignal* stop) {
  Metrics metrics;
  Log log({.level = settings.log_level, .metrics = &metrics});
  const StopSignal::LastWords last_words(stop, [&log] { log.Stop(); });
  log.Info("starting",
           {{"version", Version()}, {"commit", Commit()}, {"durability", settings.durability}});
  LogSettings(effective, &log);
  // There is no other way yet: without --insecure the options are refused.
  log.Warn("insecure", {{"detail",
                         "no authentication and no encryption: whoever reaches the port may do "
                         "everything, for every merchant"}});
  ScheduleAsBatch(&log);
  absl::StatusOr<std::unique_ptr<Replica>> replica =
      Replica::Start(settings, MakeStores(settings, &metrics), &metrics, &log, effective);
  if (!replica.ok()) return Fail(replica.status());
  stop->Wait();
  (*replica)->Stop(settings.drain_delay);
  return ExitCode::kOk;
}

ExitCode RunDev(Settings settings, const std::vector<EffectiveSetting>& effective,
                const DevSettings& dev, StopSignal* stop) {
  Metrics metrics;
  Log log({.level = settings.log_level, .metrics = &metrics});
  const StopSignal::LastWords last_words(stop, [&log] { log.Stop(); });
  std::cout << "Starting a private PostgreSQL; the first time takes a few seconds." << std::endl;
  PrivatePostgresOptions options;
  options.directory = dev.directory;
  options.ephemeral = dev.ephemeral;
  absl::StatusOr<std::unique_ptr<PrivatePostgres>> postgres = PrivatePostgres::Start(options);
  if (!postgres.ok()) return Fail(postgres.status());
  const absl::Status served =
      ServeDev(std::move(settings), effective, dev, **postgres, stop, &metrics, &log);
  const absl::Status stopped = (*postgres)->Stop();
  if (!served.ok()) return Fail(served);
  if (!stopped.ok()) return Fail(stopped);
  return ExitCode::kOk;
}

ExitCode RunHealthcheck(const HealthcheckArguments& arguments) {
  const absl::Status healthy = CheckHealth(arguments.address, arguments.timeout);
  if (!healthy.ok()) return Fail(healthy);
  return Print(absl::StrCat(arguments.address, ": SERVING\n"));
}

ExitCode RunConfigPrint(const std::vector<EffectiveSetting>& effective, bool json) {
  return Print(json ? EffectiveJson(effective) : EffectiveText(effective));
}

ExitCode RunConfigValidate() { return Print("The configuration is valid.\n"); }

ExitCode RunConfigDocs() { return Print(ConfigurationPage()); }

ExitCode RunVersion() { return Print(absl::StrCat("idempotencyd ", Version(), "\n")); }

}  // namespace idempotency
