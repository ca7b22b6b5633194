#include "tests/e2e/replicas.h"

#include "absl/strings/str_cat.h"
#include "server/base/check.h"
#include "server/store/postgres/migrate.h"
#include "tests/util/eventually.h"

namespace idempotency {
namespace {

// The name of a database that is migrated once and copied for every test.
const std::string& TemplateDatabase() {
  static const std::string* const name = [] {
    const std::string conninfo = CreateDatabase();
    const absl::Status migrated = Migrate(conninfo);
    IDEM_CHECK(migrated.ok()) << migrated.ToString();
    return new std::string(DatabaseName(conninfo));
  }();
  return *name;
}

bool AwaitServing(Client& client) {
  return Eventually([&] { return client.IsServing(); });
}

LogOptions WarningsTo(std::ostream* output) {
  LogOptions options;
  options.output = output;
  options.level = LogLevel::kWarn;
  return options;
}

}  // namespace

MigratedDatabase::MigratedDatabase() : database_(TemplateDatabase()) {}

Settings TestSettings(const std::string& conninfo) {
  Settings settings;
  settings.listen = "127.0.0.1:0";
  settings.ops_listen = "127.0.0.1:0";
  settings.database_url = conninfo;
  settings.bounds.lease.shortest = absl::Milliseconds(100);
  settings.bounds.ttl.shortest = absl::Seconds(1);
  settings.engine.policy.skew_margin = absl::Milliseconds(200);
  settings.engine.policy.shortest_lease = settings.bounds.lease.shortest;
  return settings;
}

LocalReplica::LocalReplica(const Settings& settings) : log_(WarningsTo(&log_output_)) {
  absl::StatusOr<std::unique_ptr<Replica>> replica =
      Replica::Start(settings, MakeStores(settings, &metrics_), &metrics_, &log_);
  IDEM_CHECK(replica.ok()) << replica.status().ToString();
  replica_ = *std::move(replica);
  client_ = std::make_unique<Client>(replica_->address());
  if (AwaitServing(*client_)) return;
  log_.Stop();
  IDEM_CHECK(false) << "the replica does not serve: " << log_output_.str();
}

ReplicaProcesses::ReplicaProcesses(int count, const std::string& conninfo,
                                   const std::vector<std::string>& more_arguments) {
  // All start side by side.
  for (int i = 0; i < count; ++i) {
    processes_.push_back(
        std::make_unique<ServiceProcess>(ServeArguments(conninfo, more_arguments)));
  }
  for (const auto& process : processes_) {
    addresses_.push_back(process->AwaitAddress());
    IDEM_CHECK(!addresses_.back().empty()) << process->Log();
    clients_.push_back(std::make_unique<Client>(addresses_.back()));
    IDEM_CHECK(AwaitServing(*clients_.back())) << "it does not serve: " << process->Log();
  }
}

std::string ReplicaProcesses::Logs() const {
  std::string logs;
  for (const auto& process : processes_) absl::StrAppend(&logs, process->Log());
  return logs;
}

}  // namespace idempotency
