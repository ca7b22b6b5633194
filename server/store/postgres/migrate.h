// Brings a database's schema to this program's version, and says how far it is: what
// `idempotencyd migrate` does.
//
// Migrations are the numbered files of sql/migrations, embedded in the binary. Each is applied in a
// transaction of its own, in order, and noted in the table idempotency_migration with the checksum
// of its text. All functions may be called from any thread; those that take a conninfo open a
// connection of their own. Tests give migrations of their own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/postgres/sql.h"

namespace idempotency {

// Applies what is missing, then grants the service's rights to `grant_to` unless that is empty.
// Safe to repeat and to run in parallel (also from several machines): an advisory lock lets one run
// at a time, and waits. After an error the schema is at the version reached so far. A newer schema
// that is for servers as old as this program is left as it is.
//   kUnavailable         the database cannot be reached, takes no writes, or the connection ended
//   kFailedPrecondition  the database's schema is newer and not for servers of this version, or a
//                        migration that was applied is not the one embedded here
//   kInternal            a statement failed: the message names the migration and the SQLSTATE
absl::Status Migrate(const std::string& conninfo, const std::string& grant_to = "",
                     absl::Span<const Migration> migrations = EmbeddedMigrations());

// The schema's version, 0 when there is none. Statuses as Migrate's.
absl::StatusOr<int> SchemaVersion(const std::string& conninfo);

struct MigrationState {
  enum class Kind {
    kApplied,
    kPending,
    kDiffers,  // applied with another name or content
    kNewer,    // applied, and not known to this program
  };
  int version = 0;
  // As the database has it, if it was applied.
  std::string name;
  Kind kind = Kind::kPending;
  absl::Time applied_at;
  int oldest_server = 0;
};

struct SchemaStatus {
  // By version: this program's and what else was applied.
  std::vector<MigrationState> migrations;
  // Ok, or kFailedPrecondition as Migrate would answer.
  absl::Status fit;
  // REQUIRES: fit is ok.
  bool is_up_to_date = false;
};

// Changes nothing; SELECT on idempotency_migration is all it needs. Statuses as Migrate's, but what
// differs is told in the result.
absl::StatusOr<SchemaStatus> ReadSchemaStatus(
    const std::string& conninfo, absl::Span<const Migration> migrations = EmbeddedMigrations());

// SQL that does what Migrate does with the migrations from number `from` on, for psql: it leaves
// the same state, checksums included. Each migration in it refuses to run unless the one before it
// is the last that was applied. Needs no database.
// REQUIRES: from is the number of one of the migrations.
std::string MigrationScript(int from, const std::string& grant_to = "",
                            absl::Span<const Migration> migrations = EmbeddedMigrations());

// "migration 0001_create_idempotency_record".
std::string MigrationTitle(int version, absl::string_view name);

// sql/roles/service.sql for that role.
std::string ServiceGrantsTo(absl::string_view role);

}  // namespace idempotency
