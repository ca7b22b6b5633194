// A connection for migrations: what migrate.h's functions share.
//
// For one thread at a time. Without timers and plan settings: a migration takes as long as it
// takes.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/store/postgres/params.h"
#include "server/store/postgres/rows.h"
#include "server/store/postgres/sql.h"

namespace idempotency {

struct AppliedMigration {
  int version = 0;
  std::string name;
  std::string checksum;
  absl::Time applied_at;
  int oldest_server = 0;
};

// The 32 bytes that are noted for a migration.
std::string ChecksumOf(const Migration& migration);

class Migrator {
 public:
  // kUnavailable when the database cannot be reached, kInvalidArgument when libpq cannot parse the
  // conninfo.
  static absl::StatusOr<Migrator> Connect(const std::string& conninfo);

  // One statement with binary parameters and result. kUnavailable when the connection ended or the
  // node does not take it now, else kInternal; the message holds `doing` or the query's name, and
  // the SQLSTATE.
  absl::StatusOr<PgResult> Execute(Query query, const Params& params = Params());
  // Any number of statements, in one transaction unless they say otherwise. Statuses as Execute's.
  absl::Status ExecuteScript(absl::string_view sql, absl::string_view doing);

  // By version. kNotFound when there is no list yet.
  absl::StatusOr<std::vector<AppliedMigration>> List();

 private:
  struct Closer {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  explicit Migrator(PGconn* connection) : connection_(connection) {}
  absl::StatusOr<PgResult> Judge(PGresult* raw, absl::string_view doing);

  std::unique_ptr<PGconn, Closer> connection_;
  std::string last_sqlstate_;
};

}  // namespace idempotency
