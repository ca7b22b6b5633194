// Brings a database's schema to this program's version: what `idempotencyd migrate` does.
//
// Migrations are the numbered files of sql/migrations, embedded in the binary. Each is applied in a
// transaction of its own, in order, and noted in the table idempotency_migration with the checksum
// of its text. Both functions open a connection of their own and may be called from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/postgres/sql.h"

namespace idempotency {

// Applies what is missing. Safe to repeat and to run in parallel (also from several machines): an
// advisory lock lets one run at a time, and waits. After an error the schema is at the version
// reached so far.
//   kUnavailable         the database cannot be reached, takes no writes, or the connection ended
//   kFailedPrecondition  the database's schema is newer than this program's newest, or a migration
//                        that was applied is not the one embedded here
//   kInternal            a statement failed: the message names the migration and the SQLSTATE
absl::Status Migrate(const std::string& conninfo);

// The schema's version, 0 when there is none. Statuses as Migrate's.
absl::StatusOr<int> SchemaVersion(const std::string& conninfo);

}  // namespace idempotency
