#include "server/app/migrate_commands.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "server/app/output.h"
#include "server/store/postgres/migrate.h"

namespace idempotency {
namespace {

ExitCode FailMigration(const absl::Status& status) {
  (void)Fail(status);
  return absl::IsFailedPrecondition(status) ? ExitCode::kSchemaMismatch : ExitCode::kFailure;
}

std::string StateText(const MigrationState& state) {
  const std::string applied =
      absl::FormatTime("applied  %Y-%m-%dT%H:%M:%SZ", state.applied_at, absl::UTCTimeZone());
  switch (state.kind) {
    case MigrationState::Kind::kApplied:
      return applied;
    case MigrationState::Kind::kPending:
      return "pending";
    case MigrationState::Kind::kDiffers:
      return absl::StrCat(applied, ", but with another name or content than this program's");
    case MigrationState::Kind::kNewer:
      return absl::StrCat(applied, ", newer than this program; for servers of schema ",
                          state.oldest_server, " and newer");
  }
  return "";
}

std::string StatusText(const SchemaStatus& status) {
  size_t width = 0;
  for (const MigrationState& state : status.migrations) width = std::max(width, state.name.size());
  std::string text;
  for (const MigrationState& state : status.migrations) {
    absl::StrAppendFormat(&text, "%04d  %-*s  %s\n", state.version, static_cast<int>(width),
                          state.name, StateText(state));
  }
  if (!status.fit.ok()) return text;
  return absl::StrCat(text, status.is_up_to_date
                                ? "Up to date.\n"
                                : "Not up to date: idempotencyd migrate up applies what is "
                                  "pending.\n");
}

}  // namespace

ExitCode RunMigrateUp(const Settings& settings, const MigrateArguments& arguments) {
  const absl::Status migrated = Migrate(settings.database_url, arguments.grant_to);
  if (!migrated.ok()) return FailMigration(migrated);
  const absl::StatusOr<int> version = SchemaVersion(settings.database_url);
  if (!version.ok()) return FailMigration(version.status());
  return Print(absl::StrCat("The schema is at version ", *version, ".\n"));
}

ExitCode RunMigrateStatus(const Settings& settings) {
  const absl::StatusOr<SchemaStatus> status = ReadSchemaStatus(settings.database_url);
  if (!status.ok()) return FailMigration(status.status());
  const ExitCode printed = Print(StatusText(*status));
  if (printed != ExitCode::kOk) return printed;
  if (!status->fit.ok()) return FailMigration(status->fit);
  return status->is_up_to_date ? ExitCode::kOk : ExitCode::kSchemaPending;
}

ExitCode RunMigratePrint(const MigrateArguments& arguments) {
  return Print(MigrationScript(arguments.from, arguments.grant_to));
}

}  // namespace idempotency
