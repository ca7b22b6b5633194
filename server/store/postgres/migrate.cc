#include "server/store/postgres/migrate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/migrator.h"
#include "server/store/postgres/params.h"

namespace idempotency {
namespace {

bool IsThatOf(const AppliedMigration& applied, const Migration& migration) {
  return applied.name == migration.name && applied.checksum == ChecksumOf(migration);
}

// What was applied must be the beginning of what is known here, or go on from its end with what
// says that it is for servers this old.
absl::Status CheckApplied(const std::vector<AppliedMigration>& applied,
                          absl::Span<const Migration> migrations) {
  const int newest = migrations.back().version;
  int oldest_server = 0;
  for (const AppliedMigration& each : applied) {
    if (each.version > newest) oldest_server = std::max(oldest_server, each.oldest_server);
  }
  if (oldest_server > newest) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the database's schema has version %d (%s), for servers of schema %d and newer; the newest "
        "that this program knows is %d",
        applied.back().version, applied.back().name, oldest_server, newest));
  }
  for (size_t i = 0; i < std::min(applied.size(), migrations.size()); ++i) {
    if (applied[i].version != migrations[i].version) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s is missing from the database, which has version %d",
          MigrationTitle(migrations[i].version, migrations[i].name), applied.back().version));
    }
    if (!IsThatOf(applied[i], migrations[i])) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s was applied to the database with another name (%s) or content than this program has",
          MigrationTitle(migrations[i].version, migrations[i].name), applied[i].name));
    }
  }
  return absl::OkStatus();
}

absl::Status Commit(Migrator& migrator, absl::string_view doing) {
  ASSIGN_OR_RETURN(const PgResult commit, migrator.Execute(Query::kTransactionCommit));
  if (!WasRolledBack(commit.get())) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(doing, ": COMMIT was answered by ROLLBACK"));
}

// After an error the connection is closed, and with it the transaction.
absl::Status Apply(Migrator& migrator, const Migration& migration) {
  const std::string title = MigrationTitle(migration.version, migration.name);
  RETURN_IF_ERROR(migrator.Execute(Query::kTransactionBegin).status());
  RETURN_IF_ERROR(migrator.ExecuteScript(migration.sql, title));
  Params note;
  note.AddInt4(migration.version)
      .AddBytes(migration.name)
      .AddBytes(ChecksumOf(migration))
      .AddInt4(migration.oldest_server);
  RETURN_IF_ERROR(migrator.Execute(Query::kMigrateRecord, note).status());
  return Commit(migrator, title);
}

absl::Status Grant(Migrator& migrator, const std::string& role) {
  constexpr char kDoing[] = "granting the service's rights";
  RETURN_IF_ERROR(migrator.Execute(Query::kTransactionBegin).status());
  RETURN_IF_ERROR(migrator.ExecuteScript(ServiceGrantsTo(role), kDoing));
  return Commit(migrator, kDoing);
}

MigrationState StateOf(const AppliedMigration& applied, absl::Span<const Migration> migrations) {
  MigrationState state{applied.version, applied.name, MigrationState::Kind::kNewer,
                       applied.applied_at, applied.oldest_server};
  const auto known = std::find_if(migrations.begin(), migrations.end(), [&](const Migration& each) {
    return each.version == applied.version;
  });
  if (known != migrations.end()) {
    state.kind =
        IsThatOf(applied, *known) ? MigrationState::Kind::kApplied : MigrationState::Kind::kDiffers;
  }
  return state;
}

}  // namespace

std::string MigrationTitle(int version, absl::string_view name) {
  return absl::StrFormat("migration %04d_%s", version, name);
}

absl::Status Migrate(const std::string& conninfo, const std::string& grant_to,
                     absl::Span<const Migration> migrations) {
  ASSIGN_OR_RETURN(Migrator migrator, Migrator::Connect(conninfo));
  RETURN_IF_ERROR(migrator.Execute(Query::kMigrateLock).status());
  absl::StatusOr<std::vector<AppliedMigration>> applied = migrator.List();
  if (absl::IsNotFound(applied.status())) {
    RETURN_IF_ERROR(migrator.Execute(Query::kMigrateTable).status());
    applied = migrator.List();
  }
  RETURN_IF_ERROR(applied.status());
  RETURN_IF_ERROR(CheckApplied(*applied, migrations));
  const absl::Span<const Migration> missing =
      migrations.subspan(std::min(applied->size(), migrations.size()));
  if (!missing.empty()) {
    RETURN_IF_ERROR(migrator.Execute(Query::kMigrateTableColumn).status());
  }
  for (const Migration& migration : missing) {
    RETURN_IF_ERROR(Apply(migrator, migration));
  }
  return grant_to.empty() ? absl::OkStatus() : Grant(migrator, grant_to);
}

absl::StatusOr<int> SchemaVersion(const std::string& conninfo) {
  ASSIGN_OR_RETURN(Migrator migrator, Migrator::Connect(conninfo));
  const absl::StatusOr<std::vector<AppliedMigration>> applied = migrator.List();
  if (absl::IsNotFound(applied.status())) return 0;
  RETURN_IF_ERROR(applied.status());
  return applied->empty() ? 0 : applied->back().version;
}

absl::StatusOr<SchemaStatus> ReadSchemaStatus(const std::string& conninfo,
                                              absl::Span<const Migration> migrations) {
  ASSIGN_OR_RETURN(Migrator migrator, Migrator::Connect(conninfo));
  absl::StatusOr<std::vector<AppliedMigration>> applied = migrator.List();
  if (absl::IsNotFound(applied.status())) applied = std::vector<AppliedMigration>();
  RETURN_IF_ERROR(applied.status());
  SchemaStatus status;
  status.fit = CheckApplied(*applied, migrations);
  for (const AppliedMigration& each : *applied) {
    status.migrations.push_back(StateOf(each, migrations));
  }
  status.is_up_to_date = true;
  for (const Migration& migration : migrations) {
    const bool is_applied = std::any_of(
        applied->begin(), applied->end(),
        [&](const AppliedMigration& each) { return each.version == migration.version; });
    if (is_applied) continue;
    status.is_up_to_date = false;
    status.migrations.push_back({migration.version, std::string(migration.name),
                                 MigrationState::Kind::kPending, absl::InfinitePast(),
                                 migration.oldest_server});
  }
  std::sort(status.migrations.begin(), status.migrations.end(),
            [](const auto& a, const auto& b) { return a.version < b.version; });
  return status;
}

}  // namespace idempotency
