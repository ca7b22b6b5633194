#include "server/store/postgres/migrate.h"

#include <libpq-fe.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/status_macros.h"
#include "server/record/digest.h"
#include "server/store/postgres/connection.h"
#include "server/store/postgres/params.h"
#include "server/store/postgres/rows.h"

namespace idempotency {
namespace {

constexpr char kUndefinedTable[] = "42P01";

struct Applied {
  int version;
  std::string name;
  std::string checksum;
};

std::string ChecksumOf(const Migration& migration) {
  const Sha256Digest digest = Sha256().Bytes(migration.sql).Finish();
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

// A connection without timers and plan settings: a migration takes as long as it takes.
class Migrator {
 public:
  static absl::StatusOr<Migrator> Connect(const std::string& conninfo) {
    ConnectionOptions options;
    options.conninfo = conninfo;
    ASSIGN_OR_RETURN(const ConnectParams params, ConnectParams::Make(options));
    Migrator migrator(PQconnectdbParams(params.Keywords().data(), params.Values().data(), 0));
    if (PQstatus(migrator.connection_.get()) != CONNECTION_OK) {
      return absl::UnavailableError(
          absl::StrCat("connect: ", PQerrorMessage(migrator.connection_.get())));
    }
    PQsetNoticeProcessor(
        migrator.connection_.get(), [](void*, const char*) {}, nullptr);
    return migrator;
  }

  // One statement with binary parameters and result.
  absl::StatusOr<PgResult> Execute(Query query, const Params& params = Params()) {
    std::vector<const char*> pointers;
    std::vector<int> lengths;
    for (const std::string& value : params.values()) {
      pointers.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
    }
    const std::vector<int> formats(pointers.size(), 1);
    return Judge(
        PQexecParams(connection_.get(), QueryText(query), static_cast<int>(pointers.size()),
                     nullptr, pointers.data(), lengths.data(), formats.data(), 1),
        QueryName(query));
  }

  // Any number of statements, in one transaction unless they say otherwise.
  absl::Status ExecuteScript(absl::string_view sql, absl::string_view doing) {
    return Judge(PQexec(connection_.get(), std::string(sql).c_str()), doing).status();
  }

  absl::StatusOr<std::vector<Applied>> List() {
    ASSIGN_OR_RETURN(const PgResult result, Execute(Query::kMigrateList));
    RETURN_IF_ERROR(CheckShape(result.get(), {PgType::kInt4, PgType::kText, PgType::kBytea}));
    std::vector<Applied> applied;
    for (int i = 0; i < PQntuples(result.get()); ++i) {
      RowReader row(result.get(), i);
      const int version = row.Int4();
      const std::string name(row.Bytes());
      applied.push_back({version, name, std::string(row.Bytes())});
      RETURN_IF_ERROR(row.status());
    }
    return applied;
  }

  const std::string& last_sqlstate() const { return last_sqlstate_; }

 private:
  struct Closer {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  explicit Migrator(PGconn* connection) : connection_(connection) {}

  absl::StatusOr<PgResult> Judge(PGresult* raw, absl::string_view doing) {
    PgResult result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
    const char* state = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
    last_sqlstate_ = state == nullptr ? "" : state;
    const std::string message =
        absl::StrCat(doing, ": SQLSTATE ", last_sqlstate_, ": ", PQerrorMessage(connection_.get()));
    if (PQstatus(connection_.get()) != CONNECTION_OK ||
        KindOfSqlState(last_sqlstate_) == ErrorKind::kUnavailable) {
      return absl::UnavailableError(message);
    }
    return absl::InternalError(message);
  }

  std::unique_ptr<PGconn, Closer> connection_;
  std::string last_sqlstate_;
};

// What was applied must be the beginning of what is embedded.
absl::Status CheckApplied(const std::vector<Applied>& applied) {
  const absl::Span<const Migration> embedded = EmbeddedMigrations();
  if (!applied.empty() && applied.back().version > kNewestSchema) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the database's schema has version %d (%s); the newest that this program "
                        "knows is %d",
                        applied.back().version, applied.back().name, kNewestSchema));
  }
  for (size_t i = 0; i < applied.size(); ++i) {
    const Migration& migration = embedded[i];
    if (applied[i].version != migration.version) {
      return absl::FailedPreconditionError(
          absl::StrFormat("migration %04d_%s is missing from the database, which has version %d",
                          migration.version, migration.name, applied[i].version));
    }
    if (applied[i].name != migration.name || applied[i].checksum != ChecksumOf(migration)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "migration %04d_%s was applied to the database with another name (%s) or content than "
          "this program has",
          migration.version, migration.name, applied[i].name));
    }
  }
  return absl::OkStatus();
}

absl::Status Apply(Migrator& migrator, const Migration& migration) {
  const std::string name = absl::StrFormat("migration %04d_%s", migration.version, migration.name);
  RETURN_IF_ERROR(migrator.Execute(Query::kTransactionBegin).status());
  // The connection is closed after an error, and with it the transaction.
  RETURN_IF_ERROR(migrator.ExecuteScript(migration.sql, name));
  Params note;
  note.AddInt4(migration.version).AddBytes(migration.name).AddBytes(ChecksumOf(migration));
  RETURN_IF_ERROR(migrator.Execute(Query::kMigrateRecord, note).status());
  ASSIGN_OR_RETURN(const PgResult commit, migrator.Execute(Query::kTransactionCommit));
  if (WasRolledBack(commit.get())) {
    return absl::InternalError(absl::StrCat(name, ": COMMIT was answered by ROLLBACK"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Migrate(const std::string& conninfo) {
  ASSIGN_OR_RETURN(Migrator migrator, Migrator::Connect(conninfo));
  RETURN_IF_ERROR(migrator.Execute(Query::kMigrateLock).status());
  RETURN_IF_ERROR(migrator.Execute(Query::kMigrateTable).status());
  ASSIGN_OR_RETURN(const std::vector<Applied> applied, migrator.List());
  RETURN_IF_ERROR(CheckApplied(applied));
  for (const Migration& migration : EmbeddedMigrations().subspan(applied.size())) {
    RETURN_IF_ERROR(Apply(migrator, migration));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> SchemaVersion(const std::string& conninfo) {
  ASSIGN_OR_RETURN(Migrator migrator, Migrator::Connect(conninfo));
  const absl::StatusOr<std::vector<Applied>> applied = migrator.List();
  if (!applied.ok() && migrator.last_sqlstate() == kUndefinedTable) return 0;
  RETURN_IF_ERROR(applied.status());
  return applied->empty() ? 0 : applied->back().version;
}

}  // namespace idempotency
